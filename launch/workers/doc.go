// Package workers runs one round on this node: it starts the node's workers, watches
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
// The package posts two events: Done when every worker has ended with exit code 0,
// and Failed for the first failure. The failure of a worker that may only have lost a
// peer waits up to a second for the peer's own failure. So the first Failed is a cause and
// not its consequence. A worker whose connection or standard error has ended is looked at:
// if it is dying, it has failed, although its process may end much later, when the driver
// has cleared its GPU. What was posted of it then stays. After Failed the other workers run
// on until Stop, because another node may have failed first. A round that is done can still be stopped,
// because other nodes' workers may run on and fail.
//
// Invariants: Done and Failed are posted at most once each, and a failed round posts
// no Done. When Stop has returned without an error of the agent among its failures,
// no process that the workers started is alive. Any goroutine may call the methods.
package workers
