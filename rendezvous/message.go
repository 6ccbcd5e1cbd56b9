package rendezvous

import (
	"encoding/json"
	"syscall"
	"time"
)

// Type says what a Message is.
type Type string

// Messages from a member to its coordinator.
const (
	MsgHello   Type = "hello"   // Node, Last: I want to be a member
	MsgAccept  Type = "accept"  // Term, Round, Digest: I accept exactly this world
	MsgFailed  Type = "failed"  // Round, Failures, Kill: the round is over, this is why
	MsgDone    Type = "done"    // Round, Ends: all my workers ended with 0
	MsgOver    Type = "over"    // Round, Failures, Ends, Store: nothing of that round lives here
	MsgAck     Type = "ack"     // I have the outcome
	MsgFacts   Type = "facts"   // Body, Env: what my node and its environment are
	MsgAnswer  Type = "answer"  // Serial, Body: to a question
	MsgQuery   Type = "query"   // Serial, Question: to all nodes of the job
	MsgSuspect Type = "suspect" // Round: my workers may hang
	MsgReport  Type = "report"  // Serial, Body: what my node answers to inquire
)

// Messages from a coordinator to a member.
const (
	MsgStatus   Type = "status"   // Status: what the job waits for
	MsgRefuse   Type = "refuse"   // Text: you cannot be a member, and why
	MsgRedirect Type = "redirect" // Addr: not me, ask there (empty: not known yet, ask again); a call, "come to me", has Term, Job and Round (of the last world), too
	MsgPropose  Type = "propose"  // World, Env: for your workers, of which the world has the hash; Clients
	MsgCommit   Type = "commit"   // Term, Round, Digest: all members have accepted, start
	MsgAbort    Type = "abort"    // Round, Cause, Kill: stop the workers
	MsgHandover Type = "handover" // Round, Restart, Digest (of the last world): I leave; form the next round without me
	MsgAsk      Type = "ask"      // Serial, Body: a question
	MsgInquire  Type = "inquire"  // Serial, Question: to your node
	MsgView     Type = "view"     // Serial, Body: the answers of all nodes, to a query
	MsgNotice   Type = "notice"   // Text: for your user
	MsgFinish   Type = "finish"   // Outcome: the job is over
)

// Message is everything that agents send to each other. Type says which fields are
// set.
type Message struct {
	Type     Type            `json:"type"`
	Term     int             `json:"term,omitempty"`
	Round    int             `json:"round,omitempty"`
	Restart  int             `json:"restart,omitempty"`
	Digest   string          `json:"digest,omitempty"`
	Text     string          `json:"text,omitempty"`
	Job      string          `json:"job,omitempty"` // of hello: whose outcome concerns me, though I had no place in it; of a call
	Addr     string          `json:"addr,omitempty"`
	Store    string          `json:"store,omitempty"`
	Kill     bool            `json:"kill,omitempty"` // no grace period
	Node     *Node           `json:"node,omitempty"`
	Proof    *Proof          `json:"proof,omitempty"` // of hello: that the id of Node is its own
	Last     *Last           `json:"last,omitempty"`
	World    *World          `json:"world,omitempty"`
	Cause    *Cause          `json:"cause,omitempty"`
	Failures []Cause         `json:"failures,omitempty"`
	Ends     []End           `json:"ends,omitempty"`
	Status   *Status         `json:"status,omitempty"`
	Outcome  *Outcome        `json:"outcome,omitempty"`
	Serial   int             `json:"serial,omitempty"`
	Body     json.RawMessage `json:"body,omitempty"`
	Question *Question       `json:"question,omitempty"`
	Env      []byte          `json:"env,omitempty"`
	Clients  []string        `json:"clients,omitempty"` // of propose, to the node whose store the world has: Admit's
}

// Last is what a member that lost its coordinator reports to the next one.
type Last struct {
	World    *World   `json:"world"`    // the last world that it accepted
	Started  bool     `json:"started"`  // that world was committed here
	Done     bool     `json:"done"`     // all local workers ended with 0
	Over     bool     `json:"over"`     // no worker lives here
	Failures []Cause  `json:"failures"` // seen here, or by the lost coordinator
	Ends     []End    `json:"ends"`
	Outcome  *Outcome `json:"outcome"` // the lost coordinator had already decided
}

// End is how one worker ended.
type End struct {
	Rank      int            `json:"rank"`
	LocalRank int            `json:"local_rank"`
	PID       int            `json:"pid,omitempty"`
	ExitCode  int            `json:"exit_code"`
	Signal    syscall.Signal `json:"signal,omitempty"`
	Started   time.Time      `json:"started,omitzero"`
	Ended     time.Time      `json:"ended,omitzero"`
}

// Record is what happened in one round. Of an early round of a job with many rounds
// or nodes it is shortened: its world has no members then, nor are there Ends.
// Members have the fields that a report shows.
type Record struct {
	World   World     `json:"world"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	Ends    []End     `json:"ends"`
	Cause   *Cause    `json:"cause,omitempty"` // nil: the round succeeded

	Shortened bool `json:"shortened,omitempty"`
}

// Outcome is how the job ended: the same on every node. Its size is bounded
// (see shorten): the latest 1024 rounds; nodes and ranks of the latest of them,
// 32,768 in all; 1 MiB of what the workers of all failures printed, and of all
// rounds.
type Outcome struct {
	Code     int      `json:"code"`               // exit code of gorun
	Cause    *Cause   `json:"cause,omitempty"`    // nil: success
	Failures []Cause  `json:"failures,omitempty"` // of the last round, the earliest first
	Rounds   []Record `json:"rounds,omitempty"`   // in their order
	// Preflight is what the check found, when it ended the job.
	Preflight *CheckResult `json:"preflight,omitempty"`
	// OnlyThisNode means that only this node ends and the job goes on without it.
	OnlyThisNode bool `json:"parting,omitempty"`
}

// CheckResult is what the check of a world found.
type CheckResult struct {
	Nodes    int             `json:"nodes"`             // that were compared
	Summary  string          `json:"summary,omitempty"` // what the nodes have, lines for a person
	Table    string          `json:"table"`             // lines for a person, at most 64 KiB
	Names    []string        `json:"names,omitempty"`   // of the nodes, in the order of their numbers in Findings
	Findings json.RawMessage `json:"findings"`          // a list
}

// Status is what a job that does not run yet waits for.
type Status struct {
	Phase   string        `json:"phase"`   // forming, checking, accepting, sealing, running, stopping, recovering
	Came    int           `json:"came"`    // number of nodes that came
	Members int           `json:"members"` // nodes of the world that runs, for a node without a place in it
	Here    []string      `json:"here"`    // their names; of many the first ones and how many more
	Waiting []string      `json:"waiting"` // names of the nodes that have not answered yet
	Min     int           `json:"min"`
	Max     int           `json:"max"`
	Left    time.Duration `json:"left_ns"` // until the deadline
	Job     string        `json:"job,omitempty"`
	Note    string        `json:"note,omitempty"`
	Refused []string      `json:"refused,omitempty"` // nodes that were refused and why, a line each
}
