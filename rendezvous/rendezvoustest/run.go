package rendezvoustest

import (
	"hash/fnv"
	"testing"
	"testing/synctest"
	"time"
)

// testCase is one case.
type testCase struct {
	name                string
	fences, cuts, halts bool // it needs a fleet that does
	endpoints           bool // it needs a fleet that does not fence: nodes serve endpoints
	play                func(*Rig)
}

func testCases() []testCase {
	var all []testCase
	for _, ts := range [][]testCase{forming(), failing(), coordinating(), elastic(), refusing(), partitions(), fencing()} {
		all = append(all, ts...)
	}
	return all
}

func (tr testCase) fits(t Traits) bool {
	return (!tr.fences || t.Fences) && (!tr.endpoints || !t.Fences) && (!tr.cuts || t.Cuts) && (!tr.halts || t.Halts)
}

// Run plays every case that the fleet can play in real time, with control planes on
// loopback. It plays two at a time, but cases that halt the backend one by one.
func Run(t *testing.T, f Fleet) {
	run := func(tr testCase) func(*testing.T) {
		return func(t *testing.T) {
			if !tr.halts {
				t.Parallel()
			}
			tm := timing(f.Traits())
			wires := newLoopback(tm)
			t.Cleanup(wires.close)
			tr.play(newRig(t, f, wires, tm))
		}
	}
	t.Run("together", func(t *testing.T) {
		for _, tr := range testCases() {
			if tr.fits(f.Traits()) && !tr.halts {
				t.Run(tr.name, run(tr))
			}
		}
	})
	for _, tr := range testCases() {
		if tr.fits(f.Traits()) && tr.halts {
			t.Run(tr.name, run(tr))
		}
	}
}

// Simulate plays every case in virtual time, each with a fleet of its own.
func Simulate(t *testing.T, fleet func() Fleet) {
	traits := fleet().Traits()
	for _, tr := range testCases() {
		if !tr.fits(traits) {
			continue
		}
		t.Run(tr.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tm := timing(traits)
				tr.play(newRig(t, fleet(), simulate(tm, jitter(0)), tm))
			})
		})
	}
}

// jitter returns a delay of up to 3 ms that depends on a seed and on the message's
// way.
func jitter(seed uint64) func(from, to string, n int) time.Duration {
	return func(from, to string, n int) time.Duration {
		h := fnv.New64a()
		_, _ = h.Write([]byte(from + to))
		x := h.Sum64() ^ seed*0x9e3779b97f4a7c15 ^ uint64(n)*0xbf58476d1ce4e5b9
		x ^= x >> 31
		x *= 0x94d049bb133111eb
		x ^= x >> 29
		return time.Duration(100_000 + x%3_000_000)
	}
}
