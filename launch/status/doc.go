// Package status lets a user on a node ask the agent about the job (gorun status)
// and end the job (gorun abort). It holds an abstract Unix socket, the frames on
// the socket, and their form as a table or as JSON. Service is the agent's part;
// Find and Ask are the client's.
//
// Invariants: only the agent's own user, root, and a client that proves the job's
// secret get an answer. A client believes an agent only if the agent runs as the
// user that the socket's name claims. Every frame is bounded, and every wait has a
// deadline. An agent that is stopped or hangs holds no client for longer than that.
// The socket has no file, so a killed agent leaves none.
package status
