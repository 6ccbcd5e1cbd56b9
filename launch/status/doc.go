// Package status is how a person on a node asks its agent how the job stands
// (gorun status) and orders its end (gorun abort): an abstract Unix socket, the
// frames on it, and what they say in a table or as JSON. A Service is the agent's
// part, Find and Ask the client's.
//
// Invariants: only the agent's own user, root, or a client that proves the job's
// secret learns anything or is obeyed; a client believes only an agent that runs
// as the user whose socket it claims to be; every frame is bounded, every wait has
// a deadline; an agent that is stopped or stuck holds up no client for longer than
// that. The socket has no file, so a killed agent leaves none.
package status
