package worker

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"math"
)

// BroadcastValue replaces *v on every rank by rank root's, as encoding/gob carries it:
// exported fields only. It is for settings and the like; Broadcast is for numbers.
func BroadcastValue[T any](ctx context.Context, c *Comm, v *T, root int) error {
	if c == nil {
		return errNoComm
	}
	if v == nil {
		return fmt.Errorf("gorun: cannot broadcast a value: the pointer to the %T is nil", *new(T))
	}
	var out bytes.Buffer
	length := []int64{0}
	var failed error
	if c.Rank() == root {
		if failed = gob.NewEncoder(&out).Encode(v); failed != nil {
			out.Reset()
		}
		length[0] = int64(out.Len())
	}
	if err := Broadcast(ctx, c, length, root); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("gorun: cannot encode the %T of rank %d: %w", *v, root, failed)
	}
	n := length[0]
	if n == 0 {
		return fmt.Errorf("gorun: rank %d could not encode its %T", root, *v)
	}
	if n < 0 || n > math.MaxInt32 {
		return fmt.Errorf("gorun: rank %d sends a %T of %d bytes", root, *v, n)
	}
	data := out.Bytes()
	if c.Rank() != root {
		data = make([]byte, n)
	}
	if err := Broadcast(ctx, c, data, root); err != nil || c.Rank() == root {
		return err
	}
	var got T
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&got); err != nil {
		return fmt.Errorf("gorun: cannot decode the %T of rank %d: %w", *v, root, err)
	}
	*v = got
	return nil
}
