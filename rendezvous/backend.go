package rendezvous

import "context"

// Backend tells an agent who else looks for its run. Its answers may be late and
// may differ between agents; only what Fence says is the same for all.
type Backend interface {
	// Run takes this agent among the others and keeps it there until ctx ends,
	// then takes it out again. It posts Peers, first as soon as it can and then at
	// every change, and if it fences also Lapsed and Elsewhere. post never blocks.
	// The error is for the person at the terminal: this agent cannot take part.
	Run(ctx context.Context, post func(Event)) error
}

// Fence is a Backend that makes a round unique: of all the worlds that anyone
// may seal for a run, it lets one through at a time, and none while a node that
// the world leaves out may still run workers of an earlier one. Its word stands
// where otherwise a majority of the last world's nodes would be needed.
//
// A Fence marks the one agent that may form the first world with Endpoint 0 in
// Peers, all others with -1. Agents that do not lead need to see no one but it;
// to one that leads it shows everyone, and says so with Whole.
type Fence interface {
	Backend
	// Lead tells that this agent coordinates from now on: it must see everyone.
	Lead()
	// Seal makes c.World the world of its round. It goes on until that is done,
	// until somebody else has sealed a world, or until ctx ends. The later of two
	// calls is made after the earlier one's ctx has ended; an earlier one that is
	// on its way may still come true and does not stand in the later one's way.
	Seal(ctx context.Context, c Seal) Sealed
	// Vacate tells that no worker of this round, or of an earlier one, lives here.
	Vacate(round int)
	// Unseal tells that the job, whose last world was this round's, is over and
	// that no worker of it lives anywhere.
	Unseal(job string, round int)
}

// What a Fence reports, beside Peers.
type (
	// Lapsed: this agent's membership was not confirmed for so long that it may
	// end any moment (On), by this machine's own clock; or it is confirmed again.
	Lapsed struct {
		On   bool
		Text string // why
	}
	// Elsewhere: a world was sealed, by any agent. Control is where its coordinator is.
	Elsewhere struct {
		Job     string
		Term    int
		Round   int
		Members []NodeID
		Control string
	}
	// Sealed answers Seal. Neither OK nor Refused: it was given up.
	Sealed struct {
		Serial  int
		OK      bool
		Refused bool   // another agent has sealed a world meanwhile
		Ended   bool   // Refused, as the job is over: nobody goes on with it
		Text    string // why not
	}
	// Waiting says what a Seal that goes on waits for.
	Waiting struct {
		Serial int
		Text   string
	}
)

func (Lapsed) event()    {}
func (Elsewhere) event() {}
func (Sealed) event()    {}
func (Waiting) event()   {}

// Hushed: nothing has come in on a stream for a part of the time after which it
// counts as silent (On), or something came again.
type Hushed struct {
	Conn Conn
	On   bool
}

func (Hushed) event() {}

// What a Machine with Config.Fenced asks of its Fence.
type (
	// Seal asks to make a world unique; answered by Sealed. GiveUp, Unseal or a
	// later Seal end one that goes on.
	//
	// The world that was sealed last, whoever did it, may leave workers behind: each
	// of its members must be a member of World, or be among Here or Dead, or have
	// left or expired, or have vacated that world's round. A later world of a job
	// is refused unless the world sealed last is of the same job: the job has ended,
	// and who was cut off meanwhile must not run it again.
	Seal struct {
		Serial int
		World  World
		Later  bool     // the job has had a world
		Here   []NodeID // answer, and no worker lives there
		Dead   []NodeID // their processes are known to be dead
	}
	// GiveUp ends a Seal that goes on: its ctx ends.
	GiveUp struct{}
	// Lead, Vacate and Unseal are the calls of Fence.
	Lead   struct{}
	Vacate struct{ Round int }
	Unseal struct {
		Job   string
		Round int
	}
)

func (Seal) command()   {}
func (GiveUp) command() {}
func (Lead) command()   {}
func (Vacate) command() {}
func (Unseal) command() {}
