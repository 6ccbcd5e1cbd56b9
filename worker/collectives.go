package worker

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"math"

	"github.com/gorun/gorun/worker/collective"
	"github.com/gorun/gorun/worker/half"
)

// Element is the type of a buffer's elements: Number, Float16 or BFloat16.
type Element = collective.Element

// Number is an element with Go's own arithmetic: floats and integers of every size, and
// types made of them.
type Number = collective.Number

// Float16 and BFloat16 are floating-point numbers of 16 bits, for storage and messages.
// Package half converts them.
type (
	Float16  = half.Float16
	BFloat16 = half.BFloat16
)

// Op says how AllReduce combines elements.
type Op = collective.Op

// Operations. Max and Min of floats are NaN if any rank's element is. Avg is the sum
// divided by the number of ranks; of integers it is cut towards zero. And, Or and Xor
// are for integers only.
const (
	Sum  = collective.Sum
	Max  = collective.Max
	Min  = collective.Min
	Prod = collective.Prod
	Avg  = collective.Avg
	And  = collective.And
	Or   = collective.Or
	Xor  = collective.Xor
)

// PeerError names the rank that gave up or cannot be reached.
type PeerError = collective.PeerError

// MismatchError says that two ranks made different calls, and names both.
type MismatchError = collective.MismatchError

// HangError says that a call's context ended before the call did, and where the other
// ranks were. It wraps the context's cause.
type HangError = collective.HangError

// AllReduce replaces buf on every rank by the op over all ranks' buf, element
// by element, with the same bits everywhere. The order in which floats are
// added depends on the number of ranks and on len(buf).
func AllReduce[T Element](ctx context.Context, c *Comm, buf []T, op Op) error {
	return c.allReduce(ctx, collective.Of(buf), op)
}

// Reduce sets dst of rank root to the op over all ranks' src, element by element. The
// other ranks' dst may be nil.
func Reduce[T Element](ctx context.Context, c *Comm, dst, src []T, op Op, root int) error {
	return c.reduce(ctx, collective.Of(dst), collective.Of(src), op, root)
}

// Broadcast replaces buf on every rank by rank root's buf.
func Broadcast[T Element](ctx context.Context, c *Comm, buf []T, root int) error {
	return c.broadcast(ctx, collective.Of(buf), root)
}

// AllGather sets dst to all ranks' src, one after the other in rank order.
func AllGather[T Element](ctx context.Context, c *Comm, dst, src []T) error {
	return c.allGather(ctx, collective.Of(dst), collective.Of(src))
}

// AllGatherV is AllGather of parts with different lengths: rank i's src has counts[i]
// elements. All ranks give the same counts.
func AllGatherV[T Element](ctx context.Context, c *Comm, dst []T, counts []int, src []T) error {
	return c.allGatherV(ctx, collective.Of(dst), counts, collective.Of(src))
}

// ReduceScatter sets dst to this rank's part of the op over all ranks' src. src has one
// part of len(dst) elements for each rank.
func ReduceScatter[T Element](ctx context.Context, c *Comm, dst, src []T, op Op) error {
	return c.reduceScatter(ctx, collective.Of(dst), collective.Of(src), op)
}

// Gather sets dst of rank root to all ranks' src, in rank order. The other ranks' dst may
// be nil.
func Gather[T Element](ctx context.Context, c *Comm, dst, src []T, root int) error {
	return c.gather(ctx, collective.Of(dst), collective.Of(src), root)
}

// Scatter sets dst of rank i to part i of rank root's src. The other ranks' src may be
// nil.
func Scatter[T Element](ctx context.Context, c *Comm, dst, src []T, root int) error {
	return c.scatter(ctx, collective.Of(dst), collective.Of(src), root)
}

// AllToAll sends part i of src to rank i and sets part i of dst to what rank i sends. The
// parts have the same length.
func AllToAll[T Element](ctx context.Context, c *Comm, dst, src []T) error {
	return c.allToAll(ctx, collective.Of(dst), collective.Of(src))
}

// AllToAllV is AllToAll of parts with different lengths: sendCounts[i] elements of src go
// to rank i, recvCounts[i] elements of dst come from it.
func AllToAllV[T Element](ctx context.Context, c *Comm, dst []T, recvCounts []int, src []T, sendCounts []int) error {
	return c.allToAllV(ctx, collective.Of(dst), recvCounts, collective.Of(src), sendCounts)
}

// Barrier returns when all ranks have called it.
func Barrier(ctx context.Context, c *Comm) error { return c.do(ctx, collective.Barrier()) }

// What follows makes the Work of the functions above. The compiler inlines the functions of
// package collective here, so that a call allocates nothing. It does not inside of a generic
// function, of which each program has its own.

type buffer = collective.Buffer

func (c *Comm) allReduce(ctx context.Context, b buffer, op Op) error {
	return c.do(ctx, collective.AllReduce(b, op))
}

func (c *Comm) reduce(ctx context.Context, dst, src buffer, op Op, root int) error {
	return c.do(ctx, collective.Reduce(dst, src, op, root))
}

func (c *Comm) broadcast(ctx context.Context, b buffer, root int) error {
	return c.do(ctx, collective.Broadcast(b, root))
}

func (c *Comm) allGather(ctx context.Context, dst, src buffer) error {
	return c.do(ctx, collective.AllGather(dst, src))
}

func (c *Comm) allGatherV(ctx context.Context, dst buffer, counts []int, src buffer) error {
	return c.do(ctx, collective.AllGatherV(dst, counts, src))
}

func (c *Comm) reduceScatter(ctx context.Context, dst, src buffer, op Op) error {
	return c.do(ctx, collective.ReduceScatter(dst, src, op))
}

func (c *Comm) gather(ctx context.Context, dst, src buffer, root int) error {
	return c.do(ctx, collective.Gather(dst, src, root))
}

func (c *Comm) scatter(ctx context.Context, dst, src buffer, root int) error {
	return c.do(ctx, collective.Scatter(dst, src, root))
}

func (c *Comm) allToAll(ctx context.Context, dst, src buffer) error {
	return c.do(ctx, collective.AllToAll(dst, src, c.size()))
}

func (c *Comm) allToAllV(ctx context.Context, dst buffer, recvCounts []int, src buffer, sendCounts []int) error {
	return c.do(ctx, collective.AllToAllV(dst, recvCounts, src, sendCounts))
}

// size is the number of ranks, 0 of a nil Comm.
func (c *Comm) size() int {
	if c == nil {
		return 0
	}
	return c.g.Size()
}

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
