package diagnose

import (
	"bytes"
	"path/filepath"
	"strconv"

	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/prefix"
)

// Log says where text comes from.
type Log struct {
	Name string // a file's name
	Rank int    // the rank that wrote it; -1: several, or unknown
	// Local is the local rank that wrote it; -1 as for Rank.
	Local int
	Host  string
	// isTail means that it is the end of one worker's output. Such logs come in the
	// order of the failures. Times and numbers of their lines mean nothing.
	isTail bool
}

var (
	rankName  = match.Lazy(`(?i)(?:rank[-_.]?|^rsl\.(?:error|out)\.)(\d{1,6})(?:\D|$)`)
	localName = match.Lazy(`attempt_\d+/(\d{1,5})/(?:stdout|stderr)\.log$`)
)

// readSection reads the line that tail and head print before the lines of a file:
// `==> rank3.log <==`.
func (s *Scanner) readSection(p []byte) bool {
	name, ok := bytes.CutPrefix(p, []byte("==> "))
	name, also := bytes.CutSuffix(name, []byte(" <=="))
	if !ok || !also || len(name) == 0 || len(name) > 1024 {
		return false
	}
	section := LogOf(string(name))
	s.section = &section
	s.now = prefix.Stamp{}
	s.flood.present.decides = true
	return true
}

// LogOf reads from a file's name which worker wrote the file: rank3.log is of
// rank 3, rsl.error.0003 of WRF too, and the folders of torchrun and gorun contain the local rank.
func LogOf(name string) Log {
	log := Log{Name: name, Rank: -1, Local: -1}
	if m := localName().FindStringSubmatch(filepath.ToSlash(name)); m != nil {
		log.Local, _ = strconv.Atoi(m[1])
	} else if m := rankName().FindStringSubmatch(filepath.Base(name)); m != nil {
		log.Rank, _ = strconv.Atoi(m[1])
	}
	return log
}

// nameWriter fills what the prefixes of a line do not say of its writer from the log.
func (log *Log) nameWriter(h *prefix.Head) {
	if h.Rank < 0 {
		h.Rank = log.Rank
	}
	if h.Local < 0 {
		h.Local = log.Local
	}
	if h.Host == "" {
		h.Host = log.Host
	}
}
