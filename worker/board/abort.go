package board

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/gorun/gorun/worker/contract"
)

// Aborted reports whether the round was aborted.
func (b *Board) Aborted() bool { return b.header().abort.Load() != abortNone }

// Abort ends every wait on the board. The first cause stays.
func (b *Board) Abort(c contract.Cause) {
	h, text := b.header(), encode(c)
	if !h.abort.CompareAndSwap(abortNone, abortWriting) {
		return
	}
	h.causeLen.Store(uint32(copy(h.cause[:], text)))
	h.abort.Store(abortDone)
	b.wakeSleepers()
}

// encode returns a cause as JSON of at most maxCause bytes; it cuts the texts.
func encode(c contract.Cause) []byte {
	for {
		text, err := json.Marshal(c)
		if err == nil && len(text) <= maxCause {
			return text
		}
		if err != nil || len(c.Text)+len(c.Host) == 0 { // a time outside of JSON's years
			c = contract.Cause{Rank: c.Rank}
			continue
		}
		c.Text, c.Host = half(c.Text), half(c.Host)
	}
}

func half(s string) string { return strings.ToValidUTF8(s[:len(s)/2], "") }

const (
	// causeTime bounds the wait for a cause that is being written: its writer may have to
	// wait for a CPU.
	causeTime = 100 * time.Millisecond
	// causePause is the time between two looks.
	causePause = 20 * time.Microsecond
)

// Cause returns why the round was aborted, nil if it was not, or if what the board says
// cannot be read.
func (b *Board) Cause() *contract.Cause {
	h := b.header()
	for end := time.Now().Add(causeTime); h.abort.Load() == abortWriting && time.Now().Before(end); {
		time.Sleep(causePause)
	}
	if h.abort.Load() == abortNone {
		return nil
	}
	n := min(h.causeLen.Load(), maxCause)
	text := make([]byte, n)
	copy(text, h.cause[:n])
	c := contract.Cause{Rank: -1}
	if json.Unmarshal(text, &c) != nil {
		return nil
	}
	return &c
}
