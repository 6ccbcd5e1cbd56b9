// Package workers is one round on this node: it starts the node's workers, sees
// how each of them ends, and stops them.
//
//	       start             started             succeeded
//	idle ────────► starting ─────────► running ────────────► done
//	                  │ failure           │ failure            │ failure
//	                  └────────────► failed ◄──────────────────┘
//
//	                     stop                   over
//	every state but idle ────► stopping ──────────────────► stopped
//
// Two events leave the package: Done on the way to done, when every worker has
// ended with exit code 0, and Failed for the first failure. A worker that only
// lost a peer waits up to a second for the peer's own failure, so that the first
// Failed is a cause and not its consequence. After Failed the other workers run
// on until Stop: another node may have failed first. A round that is done can
// still be stopped, as other nodes' workers may run on and fail.
//
// Invariants: Done and Failed are posted at most once each, and a round that has
// failed posts no Done any more; when Stop has returned without an error of the
// agent among its failures, nothing that the workers started is alive. Methods may
// be called from any goroutine.
package workers
