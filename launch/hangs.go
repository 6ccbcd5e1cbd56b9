package launch

import (
	"context"
	"errors"

	"github.com/gorun/gorun/launch/board"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/launch/watch"
	"github.com/gorun/gorun/launch/workers"
	"github.com/gorun/gorun/rendezvous"
)

// hangs finds out that the job hangs: by a watch on every node and, at the coordinator, by
// an inquiry.
type hangs struct {
	node    *watch.Node
	inquiry *watch.Inquiry
}

// newHangs returns what finds out that the job hangs. It starts nothing.
func (a *agent) newHangs() hangs {
	sp := &a.opts.Spec
	return hangs{
		node: watch.NewNode(watch.NodeOptions{
			Timeout: sp.HangTimeout,
			Board:   func() *board.Node { return a.workers.socket.Board() },
			Suspect: func(round int) { a.events.post(rendezvous.Suspect{Round: round}) },
		}),
		inquiry: watch.NewInquiry(watch.InquiryOptions{
			Timeout: sp.HangTimeout, End: sp.OnHang != spec.OnHangReport, Final: sp.OnHang == spec.OnHangAbort,
			Ask:  a.askNodes,
			Post: func(h rendezvous.Hung) { a.events.post(h) },
			Say:  a.console.Say,
		}),
	}
}

// run watches until ctx ends.
func (h *hangs) run(ctx context.Context, a *agent) {
	if a.opts.Spec.HangTimeout <= 0 || a.opts.Spec.Dry != nil || a.opts.Spec.Check != nil {
		return
	}
	a.wg.Go(func() { h.node.Run(ctx) })
	a.wg.Go(func() { h.inquiry.Run(ctx) })
}

// begin watches a round that has started.
func (h *hangs) begin(number int, r *workers.Round) {
	h.node.Begin(watch.Round{Number: number, Workers: r.Workers})
}

// signs answers what this node's workers do.
func (h *hangs) signs(ctx context.Context, _ string) (any, error) {
	signs, round := h.node.Signs(ctx)
	return watch.Signs{Round: round, Signs: signs}, nil
}

// askNodes asks all nodes of the job. Anything beside the loop may call it.
func (a *agent) askNodes(ctx context.Context, q rendezvous.Question) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, status.AnswerTime+q.Within)
	defer cancel()
	call, reply := status.NewCall(status.Request{Type: status.TypeStatus, Question: q})
	a.events.Put(call)
	select {
	case r := <-reply:
		if r.Error != "" {
			return nil, errors.New(r.Error)
		}
		return r.View, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
