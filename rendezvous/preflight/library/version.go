package library

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

const (
	marker = "NCCL version "
	// maxVersion bounds the version string, in bytes; a vendor's suffix is
	// short.
	maxVersion = 96
	chunk      = 256 << 10 // bytes that are read at once
)

// bound is how much is read to find a version.
type bound struct {
	bytes int64
	time  time.Duration
}

// The constants of libnccl are a few MiB. The constants of libtorch_cuda, which
// may contain NCCL, are many more. A static build with its string beyond the
// bound stays unknown. The limit of time is only the last resort, because a
// busy machine reads slowly.
var (
	libraryBound = bound{bytes: 64 << 20, time: 2 * time.Second}
	staticBound  = bound{bytes: 512 << 20, time: time.Second}
)

// version is what NCCL's own string says.
type version struct {
	text string // "2.27.5", with a vendor's suffix
	code int    // as ncclGetVersion returns it
	cuda string // "12.9"; "" if the build did not set it
}

// versionCode computes NCCL_VERSION(major, minor, patch) of nccl.h, whose rule
// changed with 2.9.
func versionCode(major, minor, patch int) int {
	if major <= 2 && minor <= 8 {
		return major*1000 + minor*100 + patch
	}
	return major*10000 + minor*100 + patch
}

// parseVersion reads what follows "NCCL version ":
// (\d+)\.(\d+)\.(\d+)(\S*?)\+cuda(\d+)\.(\d+). A home build may have the names
// of the macros after +cuda (NVIDIA/nccl#268).
func parseVersion(b []byte) (v version, ok bool) {
	b = b[:min(len(b), maxVersion)]
	end := bytes.IndexFunc(b, func(c rune) bool { return c <= ' ' || c > '~' })
	if end >= 0 {
		b = b[:end]
	}
	text, cuda, ok := strings.Cut(string(b), "+cuda")
	if !ok {
		return v, false
	}
	if v.text, v.code, ok = parseRelease(text); !ok {
		return v, false
	}
	if cuda == "CUDA_MAJOR.CUDA_MINOR" {
		return v, true
	}
	major, rest, _ := strings.Cut(cuda, ".")
	minor := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	if !isNumber(major) || !isNumber(minor) {
		return v, false
	}
	v.cuda = major + "." + minor
	return v, true
}

// parseRelease reads "2.27.5" and a suffix.
func parseRelease(text string) (string, int, bool) {
	parts := strings.SplitN(text, ".", 3)
	if len(parts) < 3 {
		return "", 0, false
	}
	digits := len(parts[2]) - len(strings.TrimLeft(parts[2], "0123456789"))
	parts[2] = parts[2][:digits]
	var n [3]int
	for i, p := range parts {
		if !isNumber(p) {
			return "", 0, false
		}
		n[i], _ = strconv.Atoi(p)
	}
	return text, versionCode(n[0], n[1], n[2]), true
}

// scanVersion searches the constants of an ELF file. ok is false if they hold
// no version. The error says why they could not be searched to the end.
func scanVersion(ctx context.Context, parts []*io.SectionReader, limit bound) (v version, ok bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit.time, fmt.Errorf("no version found within %v", limit.time))
	defer cancel()
	s := scanner{left: limit.bytes}
	for _, part := range parts {
		s.r, s.buf = part, s.buf[:0]
		for at := int64(0); at < part.Size(); {
			if ctx.Err() != nil {
				return v, false, context.Cause(ctx)
			}
			if s.left <= 0 {
				return v, false, fmt.Errorf("no version found in %d bytes", limit.bytes)
			}
			n, err := s.fill(at, part.Size()-at)
			if err != nil {
				return v, false, err
			}
			at += n
			if v, ok := s.search(at == part.Size()); ok {
				return v, true, nil
			}
		}
	}
	return v, false, nil
}

// scanner holds the part of a file that is being searched.
type scanner struct {
	r    io.ReaderAt
	buf  []byte
	left int64 // bytes that may still be read
}

// fill appends the bytes at an offset, at most n.
func (s *scanner) fill(at, n int64) (int64, error) {
	if s.buf == nil {
		s.buf = make([]byte, 0, chunk)
	}
	kept := len(s.buf)
	n = min(n, int64(cap(s.buf)-kept), s.left)
	s.buf = s.buf[:kept+int(n)]
	if m, err := s.r.ReadAt(s.buf[kept:], at); m < int(n) {
		return 0, fmt.Errorf("reading at %d: %w", at, err)
	}
	s.left -= n
	return n, nil
}

// search looks for a version and keeps the bytes that may begin one.
func (s *scanner) search(last bool) (v version, ok bool) {
	b := s.buf
	for {
		i := bytes.Index(b, []byte(marker))
		if i < 0 {
			b = b[max(len(b)-len(marker)+1, 0):]
			break
		}
		b = b[i:]
		if len(b) < len(marker)+maxVersion && !last {
			break
		}
		if v, ok := parseVersion(b[len(marker):]); ok {
			return v, true
		}
		b = b[len(marker):]
	}
	s.buf = s.buf[:copy(s.buf, b)]
	return v, false
}
