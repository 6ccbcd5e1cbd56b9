// Package shm carries out the calls of ranks that share a node's board in its memory: the
// collectives of an Engine, in which each rank reads the others' operands where they lie,
// and the Messages between two ranks, which go through rings.
//
// Every rank owns one part of that memory, its arena. An arena has a directory of blocks,
// one for each communicator of the rank, and ends with an inbox and with rings, one for each
// rank that may get messages of this one; between them are blocks and memory for Alloc. A
// ring that nobody uses costs nothing. A block has
//
//	lines    two, used in turn: the rank's call, and up to 32 bytes of what the rank gives
//	step     the number of the steps that the rank has done
//	slots    two, used in turn: what the rank gives
//	results  two, used in turn: the rank's slice of a reduction
//
// A call begins alike for all operations: a rank puts the first piece of what it gives
// into its line or slot, publishes the line and waits for the lines of all others. If one
// says another call than its own, it returns a *collective.MismatchError. Then
//
//	up to 32 bytes      it takes its result from the lines
//	up to a slot        it takes its result from the slots; an all-reduce, up to oneShot
//	above               piece by piece: in step s every rank puts piece s and takes s-1
//	above, all-reduce   in step s every rank puts piece s, reduces its slice of s-1, and
//	                    takes all slices of s-2
//	in Alloc's memory   an all-reduce reduces its slice where the operands are and writes
//	                    it to all of them
//
// Invariants: a rank that publishes the line of call k has done call k-1, and a rank has
// done call k only when it has the lines of all: so what was read in call k-2 may be
// overwritten in call k. A call of several steps ends when all have done the last one.
// Each element is reduced in one place in the order of ranks, or everywhere from the same
// operands in that order, so that all ranks have the same bits. No wait outlives an abort
// of the round, nor the failure of any rank's call: both end all waits at once. Offsets
// and lengths that another rank wrote are checked before use. A rank never leaves a message
// in a ring while it looks there, so that none has to wait for the receiver of another.
package shm
