package tcpstore

import (
	"errors"
	"sync/atomic"
)

// entryOverhead is what the server spends on a stored key, a queued value or a
// pending wait besides its bytes (map slot, headers), rounded up. Charging it
// keeps a flood of tiny entries within the budget.
const entryOverhead = 128

var errFull = errors.New("asked the store to hold more than Options.MaxBytes bytes")

// budget counts the bytes that peers make the server hold.
type budget struct {
	max  int64
	used atomic.Int64
}

// charge adds n bytes (n may be 0 or less), or fails and adds nothing.
func (b *budget) charge(n int64) error {
	if b.used.Add(n) > b.max && n > 0 {
		b.used.Add(-n)
		return errFull
	}
	return nil
}

func (b *budget) release(n int64) { b.used.Add(-n) }
