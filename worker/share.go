package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/store"
)

const (
	// shareMemory is the range of bytes of a board for each rank, as the agent makes it. A
	// byte costs nothing until it is used.
	shareMemory = 256 << 20
	// shareTime bounds the wait for the first local rank. Ranks that wait in vain talk over
	// TCP.
	shareTime = 10 * time.Second
)

// shareBoard gives the ranks of this node a board if there is no agent that could: the
// first local rank makes it and writes its address into the store, below prefix. Where
// ranks cannot share memory there is no board.
func (w *World) shareBoard(ctx context.Context, prefix string) error {
	if w.agent != nil || w.board() != nil || w.set.LocalSize < 2 || w.set.LocalRank >= w.set.LocalSize {
		return nil
	}
	machine, err := board.Machine()
	if err != nil {
		return nil // this system has no /proc
	}
	c, err := store.Dial(ctx, w.set.Store)
	if err != nil {
		return err
	}
	defer c.Close()
	key := fmt.Sprintf("%sboard/%d/%s", prefix, w.set.Node, machine)
	if w.set.LocalRank == 0 {
		b, address := makeBoard(w.set.LocalSize)
		got, err := c.CompareSet(ctx, key, nil, []byte(address))
		if err != nil || string(got) != address {
			b.Close() // nobody has found it
			return err
		}
		w.joinBoard(b)
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, shareTime)
	defer cancel()
	address, err := c.Get(waiting, key)
	if err != nil && ctx.Err() == nil && waiting.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	if b, err := board.MapAddress(string(address)); err == nil {
		w.joinBoard(b)
	}
	return nil
}

// makeBoard makes a board and returns its address; none if this system has no such memory.
func makeBoard(ranks int) (b *board.Board, address string) {
	b, err := board.Create(board.Options{Ranks: ranks, Memory: ranks * shareMemory})
	if err != nil {
		return nil, "none"
	}
	return announced(b)
}

// announced returns a board and its address. It closes a board that has none.
func announced(b *board.Board) (*board.Board, string) {
	address, err := b.Address()
	if err != nil {
		b.Close() // what matters is that there is no address
		return nil, "none"
	}
	return b, address
}

// boardID is equal on the ranks that share a board, and "" on a rank that has none.
func (w *World) boardID() string {
	if w.board() == nil {
		return ""
	}
	return w.board().ID()
}
