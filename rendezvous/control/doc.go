// Package control moves the messages between a member and its coordinator: one
// long-lived gRPC stream each, the same for every backend.
//
// Invariants: messages of one stream arrive in the order in which they were sent;
// nothing here waits for a slow peer (a stream that cannot keep up ends); a stream
// whose messages are not handled is not read any further, so that flow control holds
// its sender back and no peer fills this agent's memory; a stream that is silent for
// Options.Silence ends; every stream that was reported with Dialed or Received and
// was not closed by this side is reported with Closed exactly once.
//
// The package knows neither how peers were found nor what the messages mean.
package control
