// Package watch finds out that a job hangs. A Node looks at the workers of one node and
// notes when they may hang. At the coordinator an Inquiry asks all nodes what their
// workers do and reports a hang. Package hang has the rules.
//
// Invariants: looking touches no worker: it reads the shared memory of Go workers and
// /proc. A job that makes progress sends nothing. Run of both returns after everything
// that it started has ended. Any goroutine may call the other methods.
package watch
