// Package attach is what a package of the worker tree gets of a communicator, to make
// calls on its ranks by means of its own: package cuda makes them on GPUs.
package attach

import (
	"context"

	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/collective"
)

// Comm is a communicator with the ranks of another one and calls of its own.
type Comm struct {
	ID         uint64 // of the calls: not 0, equal on all ranks
	Rank, Size int
	WorldRank  int
	LocalRank  int
	Device     string // UUID of the rank's own GPU; "": the launcher gives none

	// Host carries numbers between the ranks before the communicator can. Nobody else calls it.
	Host *collective.Group
	// Positions is where the calls are written; nil: nobody reads them.
	Positions collective.Positions
	// Line is the communicator's line on the node's board, where Positions writes the
	// collectives; nil: it has none.
	Line  *board.Line
	Board *board.Board // nil: this rank shares none
	// BoardID is equal on ranks that share a board, 0 on a rank that has none.
	BoardID uint64

	World
}

// World is what the communicator does with the world that it belongs to.
type World interface {
	// Context ends with the world.
	Context() context.Context
	// HasAgent reports whether an agent says why a rank failed.
	HasAgent() bool
	// Ended returns why no call can go on: an abort, a rank that gave up, a world that is
	// closed. It is cheap.
	Ended() error
	// Break makes every call of the world's ranks return why.
	Break(why error)
	// Outcome returns the error of a call for the program. If there is an abort, that is
	// the error.
	Outcome(err error) error
	// Site is the number, on this rank's page of the board, of the line of the program that
	// makes the present call; 0: unknown.
	Site() uint16
	// Answer lets last answer what ranks of other nodes ask Host.Below about numbers of
	// communicators, until Leave. It returns false for numbers that it does not know.
	Answer(last func(comm uint64) (collective.Call, bool))
	// Leave gives back what the world has of the communicator and of Host. No call of either
	// follows.
	Leave() error
	// Deadline returns ctx with the world's deadline, if it has one.
	Deadline(ctx context.Context) (context.Context, context.CancelFunc)
}
