// Package rendezvoustest is what every backend must pass: the same jobs, played
// by agents that are goroutines around a real rendezvous.Machine, with workers
// that are only pretended.
//
// Run plays them in real time, with streams over loopback; Simulate in virtual
// time, with a memory.Net. A backend brings a Fleet.
//
// Whatever a case asks for, a Ledger sees to it that a round of a job has one
// world, that it starts only where and after every member has accepted it, that
// it starts nowhere while a worker of another round lives on a node that takes
// part (with a Fence: on any node), and that no agent ends before its workers.
package rendezvoustest
