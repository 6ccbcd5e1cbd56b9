package collective

import (
	"fmt"
	"strings"
)

// MismatchError says that two ranks are in different calls, or in the same call with
// different arguments. Its ranks are numbers in the world, whatever the communicator.
type MismatchError struct {
	Rank   int // this rank
	Mine   Call
	Peer   int // the rank that makes the other call
	Theirs Call
	Sends  bool // Mine is the sender's end of a message, not the receiver's

	MyCaller, TheirCaller string // file:line that made the call, "" if unknown
}

func (e *MismatchError) Error() string {
	theirs, mine := e.Theirs.String(), e.Mine.String()
	if e.Mine.Kind == KindSend && e.Theirs.Kind == KindSend {
		theirs, mine = e.Theirs.named("send"), e.Mine.named("receive")
		if e.Sends {
			theirs, mine = e.Theirs.named("receive"), e.Mine.named("send")
		}
	}
	if theirs == mine {
		theirs = fmt.Sprintf("%s, step %d", theirs, e.Theirs.Step)
		mine = fmt.Sprintf("%s, step %d", mine, e.Mine.Step)
	}
	return fmt.Sprintf("ranks do not make the same calls: rank %d is in %s%s, rank %d is in %s%s",
		e.Peer, theirs, at(e.TheirCaller), e.Rank, mine, at(e.MyCaller))
}

// at names a place in the source, if it is known.
func at(caller string) string {
	if caller == "" {
		return ""
	}
	return " at " + caller
}

// PeerError says that rank Rank gave up or cannot be reached any more.
type PeerError struct {
	Rank   int
	Err    error // why, as seen here or as the peer reported
	Closed bool  // the rank closed on purpose: nothing has failed there
}

func (e *PeerError) Error() string { return fmt.Sprintf("rank %d %v", e.Rank, e.Err) }

func (e *PeerError) Unwrap() error { return e.Err }

// GaveUp is why a rank gave up, in its own words. The ranks that pass it on keep its number.
type GaveUp struct {
	Rank   int // in the world
	Reason string
}

func (e *GaveUp) Error() string { return "gave up: " + e.Reason }

// HangError says that a call's context ended before the call did, and where the other
// ranks were. It wraps the context's cause. The text has their numbers in the world, but for
// those in a call, which are the program's.
type HangError struct {
	Call   Call
	Others []Position // what is known of the other ranks, by rank
	Err    error
}

func (e *HangError) Unwrap() error { return e.Err }

func (e *HangError) Error() string {
	var b strings.Builder
	b.WriteString(e.Err.Error())
	missing := false
	for _, p := range e.Others {
		if p.Arrived {
			continue
		}
		missing = true
		fmt.Fprintf(&b, "; rank %d has not arrived", p.World)
		switch {
		case p.Unknown:
			b.WriteString(" or does not answer")
		case p.Call.Kind == 0:
			b.WriteString(", it has made no call yet")
		case p.Inside:
			fmt.Fprintf(&b, ", it is in %s%s", p.text(), at(p.Caller))
		default:
			fmt.Fprintf(&b, ", it has left %s%s", p.text(), at(p.Caller))
		}
	}
	if !missing {
		b.WriteString(e.allHere())
	}
	return b.String()
}

// maxHere is the number of ranks that allHere names.
const maxHere = 8

// allHere says where the other ranks are if none is missing, and what that means.
func (e *HangError) allHere() string {
	if len(e.Others) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("; no rank is missing")
	for _, p := range e.Others[:min(len(e.Others), maxHere)] {
		switch {
		case p.Inside && (p.Call.Kind == KindSend) == (e.Call.Kind == KindSend) && p.Call.Seq == e.Call.Seq:
			fmt.Fprintf(&b, ", rank %d is in this call too%s", p.World, at(p.Caller))
		case p.Inside:
			fmt.Fprintf(&b, ", rank %d has left it and is in %s%s", p.World, p.text(), at(p.Caller))
		default:
			fmt.Fprintf(&b, ", rank %d has left it%s", p.World, at(p.Caller))
		}
	}
	if more := len(e.Others) - maxHere; more > 0 {
		fmt.Fprintf(&b, ", and so on for %d more", more)
	}
	b.WriteString(": what it moves is slow, or stuck on its way; look at the network between the ranks, and for one that is stopped (gorun stacks), or give the call more time")
	return b.String()
}
