// Package board is the memory that the ranks of one node and their agent share. A rank
// waits there for the others, every rank is stopped there at once, and what each rank
// does can be read there without asking it.
//
//	header    what the board is; the abort word and the cause of the abort
//	pages     one a local rank: where it sleeps, its call sites, its lines. A line is
//	          what one communicator of the rank calls: the last 64 calls, and how many
//	          of them it has entered and left. Messages are shown apart, by their ends
//	memory    a plain range of bytes for what ranks exchange
//
// The agent makes the board of a round as a sealed memfd, whose size nobody can change,
// and hands it over the worker socket. Ranks without an agent share a file in /dev/shm.
//
// Invariants: a word that another process writes is read with sync/atomic. What a reader
// takes from a page is bounded by constants, and where its parts lie follows from the
// size at the time of mapping, never from the memory: whatever a rank writes, no reader
// crashes or loops. No wait outlives an abort. Mapping needs the same user, and ranks of
// one user trust each other with their data.
package board
