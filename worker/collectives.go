package worker

import (
	"context"

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

// AllReduce replaces buf on every rank by the op over all ranks' buf, element
// by element, with the same bits everywhere. The order in which floats are
// added depends on the number of ranks and on len(buf).
func AllReduce[T Element](ctx context.Context, c *Comm, buf []T, op Op) error {
	return c.outcome(c.b.AllReduce(ctx, collective.Of(buf), op))
}

// Broadcast replaces buf on every rank by rank root's buf.
func Broadcast[T Element](ctx context.Context, c *Comm, buf []T, root int) error {
	return c.outcome(c.b.Broadcast(ctx, collective.Of(buf), root))
}

// Send sends buf to rank dst, which must call Recv with the same number of elements of
// the same type. It returns when buf may be changed; for a big buffer this is only when
// dst receives. Messages between two ranks arrive in order, also relative to the
// collectives of both.
func Send[T Element](ctx context.Context, c *Comm, buf []T, dst int) error {
	return c.outcome(c.b.Send(ctx, collective.Of(buf), dst))
}

// Recv fills buf with what rank src sends.
func Recv[T Element](ctx context.Context, c *Comm, buf []T, src int) error {
	return c.outcome(c.b.Recv(ctx, collective.Of(buf), src))
}

// SendRecv sends out to rank dst and fills in from rank src at the same time. Unlike a
// Send and then a Recv, it cannot block when the ranks send in a ring.
func SendRecv[T Element](ctx context.Context, c *Comm, out []T, dst int, in []T, src int) error {
	return c.outcome(c.b.SendRecv(ctx, collective.Of(out), dst, collective.Of(in), src))
}

// Barrier returns when all ranks have called it.
func Barrier(ctx context.Context, c *Comm) error {
	return c.outcome(c.b.Barrier(ctx))
}
