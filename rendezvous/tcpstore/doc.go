// Package tcpstore serves the key-value store that workers bootstrap from: the
// server side of torch's TCPStore protocol, and nothing else of torch.
//
// It speaks two dialects. The modern one (torch 2.1 and later) opens each
// connection with a VALIDATE frame. The legacy one (torch 1.9 to 2.0) has other
// command numbers and no such frame. A connection's first five bytes
// distinguish them: a legacy client can only begin like VALIDATE by announcing
// a key of about 1 GB, which no dialect allows.
//
// A Server is one round's store: it starts empty and is discarded afterwards.
// It also answers one question of gorun's own beside the protocol: Settled.
//
// Invariants:
//
//   - each connection is read and written by one goroutine only; a session that
//     ends another session's wait leaves a message and interrupts its read, so
//     a client that does not read its replies delays only itself;
//   - between requests a connection costs no timer and no poll; within a frame
//     and within a reply it has a deadline;
//   - what a peer announces is never allocated before it arrives, and all that
//     peers make the server keep is charged to one budget (Options.MaxBytes);
//   - a stored value is never changed in place within its length, so replies
//     may refer to it after the lock is released;
//   - bad input ends the connection that sent it and changes nothing else.
package tcpstore
