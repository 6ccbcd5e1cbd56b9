// Package launch is the agent: the one process of a node that joins the others,
// starts this node's workers, supervises them, ends them when the job fails
// anywhere, and reports.
//
// One goroutine, the loop in agent.go, owns the state machine of package
// rendezvous: everything that happens reaches it as an event, and it carries
// out what the machine commands. The parts below it (network, workers of a
// round, worker socket, store) never talk to each other.
//
// Invariants: the agent's end waits for everything that it started; workers of
// one round are gone before the next round's start; whatever happens, exactly
// one outcome is reported.
package launch
