// Package drive puts a rendezvous.Machine to work. It brings the events and executes
// the commands that are the same for every agent, those about streams and about the
// fence. All other commands are the owner's.
//
// Invariants: putting an event never waits; one goroutine, the owner's, touches the
// machine; commands are executed in the machine's order; a message counts as handled
// after all that it commanded; a Seal is given up before another one begins, and the
// owner can await it. Nothing else runs beside the owner.
package drive
