package ncclenv

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Bounds on a conf file. NCCL cuts names and values at cutAt bytes.
const (
	maxConf    = 64 << 10
	maxEntries = 256
	maxFaults  = 16
	cutAt      = 1023
)

// Entry is a variable that a conf file sets.
type Entry struct{ Name, Value string }

// File is a conf file as NCCL understands it.
type File struct {
	Facts   ConfFile
	Entries []Entry // in order; of a name that comes twice the first counts
}

// ParseConf reads the text of a conf file as NCCL does (setEnvFile in its
// src/misc/param.cc). A line is NAME=VALUE up to the line's end; nothing is trimmed. A
// '#' in the first column begins a comment (before 2.26.2 such a line sets a variable
// with that odd name, which changes nothing). A line without '=' is skipped. ParseConf
// reports as a fault what a person would not expect of these rules.
func ParseConf(path string, text []byte) File {
	hash := sha256.Sum256(text)
	f := File{Facts: ConfFile{Path: path, Hash: hex.EncodeToString(hash[:])}}
	if len(text) > maxConf {
		text = text[:maxConf]
		f.Facts.Error = fmt.Sprintf("longer than %d bytes: gorun did not read the rest", maxConf)
	}
	first := map[string]int{} // name to its line
	number := 0
	for line := range bytes.Lines(text) {
		number++
		fault := func(format string, args ...any) {
			if len(f.Facts.Faults) < maxFaults {
				f.Facts.Faults = append(f.Facts.Faults, fmt.Sprintf("line %d: ", number)+fmt.Sprintf(format, args...))
			}
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		if len(line) > 0 && line[0] == '#' {
			continue
		}
		if i := bytes.IndexByte(line, 0); i >= 0 {
			line = line[:i]
			fault("NCCL reads the line only up to its zero byte")
		}
		name, value, ok := strings.Cut(string(line), "=")
		if !ok {
			if strings.TrimSpace(name) != "" {
				fault("no '=': NCCL skips the line")
			}
			continue
		}
		if name == "" {
			fault("no name before '=': NCCL skips the line")
			continue
		}
		name, value = cut(name), cut(value)
		for _, odd := range oddities(name, value) {
			fault("%s", odd)
		}
		if at, twice := first[name]; twice {
			fault("NCCL uses the earlier value of %s, in line %d", printable(name), at)
			continue
		}
		if len(f.Entries) == maxEntries {
			f.Facts.Error = fmt.Sprintf("more than %d variables: gorun did not read the rest", maxEntries)
			break
		}
		first[name] = number
		f.Entries = append(f.Entries, Entry{name, value})
		f.Facts.Names = append(f.Facts.Names, printable(name))
	}
	return f
}

// cut shortens a name or value as NCCL does.
func cut(s string) string { return s[:min(len(s), cutAt)] }

// oddities returns what the user probably did not intend. It never repeats a value,
// because the value may be a secret.
func oddities(name, value string) (faults []string) {
	addFault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	shown := printable(name)
	switch plain := strings.TrimSpace(strings.TrimPrefix(name, "\ufeff")); {
	case strings.HasPrefix(plain, "#"):
		addFault("a comment must begin in the first column: NCCL sets a variable named %s", shown)
	case strings.HasPrefix(plain, "export "):
		addFault("NCCL is no shell: it sets a variable named %s", shown)
	case plain != name:
		addFault("NCCL does not trim: the name is %s, with its blanks", shown)
	}
	switch {
	case strings.HasSuffix(value, "\r"):
		addFault("the line ends as in Windows: the value of %s ends with a carriage return", shown)
	case strings.TrimSpace(value) != value:
		addFault("NCCL does not trim: the value of %s begins or ends with a blank", shown)
	}
	trimmed := strings.TrimSpace(value)
	if n := len(trimmed); n > 0 && (strings.ContainsRune(`"'`, rune(trimmed[0])) || strings.ContainsRune(`"'`, rune(trimmed[n-1]))) {
		addFault("NCCL is no shell: the value of %s keeps its quotes", shown)
	}
	if strings.Contains(value, " #") {
		addFault("a comment must begin in the first column: this one belongs to the value of %s", shown)
	}
	if strings.Contains(value, "$") {
		addFault("NCCL is no shell: the value of %s keeps its $", shown)
	}
	if len(name) == cutAt || len(value) == cutAt {
		addFault("NCCL cuts names and values after %d bytes: %s", cutAt, shown)
	}
	return slices.Clip(faults)
}

// printable returns a name for a message: unchanged, or quoted when it is odd.
func printable(name string) string {
	const most = 64
	if len(name) > most {
		name = name[:most]
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c >= 0x7f || c == '"' {
			return fmt.Sprintf("%q", name)
		}
	}
	return name
}
