package host

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxText bounds a text value in the facts, in bytes.
const maxText = 256

// head reads at most limit bytes of a file and returns nil if it cannot be
// read. It uses bare system calls, because every start reads some thirty files.
func (o Options) head(name string, limit int) []byte {
	return readHead(o.Root+name, limit, nil)
}

// readHead reads as head does, into a buffer that it may replace by a larger
// one.
func readHead(name string, limit int, buf []byte) []byte {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	text := buf[:0]
	if text == nil {
		text = make([]byte, 0, min(limit, 4096))
	}
	for len(text) < limit {
		if len(text) == cap(text) {
			text = append(make([]byte, 0, min(limit, 4*cap(text))), text...)
		}
		n, err := unix.Read(fd, text[len(text):min(cap(text), limit)])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		text = text[:len(text)+n]
	}
	return text
}

// line reads a file of one short line, "" if it cannot be read.
func (o Options) line(name string) string {
	first, _, _ := bytes.Cut(o.head(name, maxText), []byte("\n"))
	return bounded(strings.TrimSpace(string(first)))
}

// bounded returns the part of a text that a message can show.
func bounded(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxText)], "?") }

// number reads a file that contains one number, Unknown if it does not.
func (o Options) number(name string) int64 { return parseNumber(o.head(name, 64)) }

// parseNumber reads a decimal number. "max" is Unlimited, and so is a number
// too large for a limit (version 1 of cgroups writes 2^63 less a page).
func parseNumber(text []byte) int64 {
	s := string(bytes.TrimSpace(text))
	if s == "max" {
		return Unlimited
	}
	n, err := strconv.ParseUint(s, 10, 64)
	switch {
	case err != nil:
		return Unknown
	case n >= 1<<62:
		return Unlimited
	}
	return int64(n)
}

// names lists a folder: at most limit names that keep accepts.
func (o Options) names(dir string, limit int, keep func(string) bool) []string {
	d, err := os.Open(o.Root + dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	var kept []string
	for len(kept) < limit {
		some, err := d.Readdirnames(1024)
		for _, name := range some {
			if keep(name) && len(kept) < limit {
				kept = append(kept, name)
			}
		}
		if err != nil || len(some) == 0 {
			break
		}
	}
	return kept
}

func isNumber(name string) bool {
	if name == "" || len(name) > 10 {
		return false
	}
	for _, c := range []byte(name) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
