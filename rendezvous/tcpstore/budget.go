package tcpstore

import (
	"errors"
	"sync/atomic"
)

// entryOverhead is what the server spends on a stored key, a queued value or a
// pending wait besides its bytes (map slot, headers), rounded up. Charging it
// keeps a flood of tiny entries within the budget.
const entryOverhead = 128

var errFull = errors.New("asked the store to hold more bytes than it may (Options.MaxBytes)")

// budget counts the bytes that peers make the server hold.
type budget struct {
	max  int64
	used atomic.Int64
}

// take charges n bytes (n may be 0 or less) or fails and charges nothing.
func (b *budget) take(n int64) error {
	if b.used.Add(n) > b.max && n > 0 {
		b.used.Add(-n)
		return errFull
	}
	return nil
}

func (b *budget) give(n int64) { b.used.Add(-n) }
