package memory_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gorun/gorun/rendezvous/rendezvoustest"
)

var (
	schedules = flag.Int("rendezvous.schedules", 0, "random schedules to play, with a fence and without (0: 2,000; with -short or -race 200)")
	firstSeed = flag.Uint64("rendezvous.seed", 1, "first seed, 0: a random one; a failing test names the seed to replay")
)

func played() int {
	switch {
	case *schedules > 0:
		return *schedules
	case testing.Short() || raceEnabled:
		return 200
	}
	return 2000
}

func TestSchedules(t *testing.T) {
	first := *firstSeed
	if first == 0 {
		first = rand.Uint64N(1 << 40)
	}
	for _, fences := range []bool{true, false} {
		for i := range played() {
			seed := first + uint64(i)
			ok := t.Run(fmt.Sprintf("fence %v, -rendezvous.seed=%d -rendezvous.schedules=1", fences, seed), func(t *testing.T) {
				rendezvoustest.Play(t, seed, func() rendezvoustest.Fleet { return newFleet(fences) })
			})
			if !ok {
				break
			}
		}
	}
}

// TestReplay checks that a seed plays the same schedule again. Otherwise a seed would
// be of no use.
func TestReplay(t *testing.T) {
	for _, fences := range []bool{true, false} {
		for seed := range uint64(100) {
			var once []string
			for range 3 {
				lines := rendezvoustest.Play(t, seed, func() rendezvoustest.Fleet { return newFleet(fences) })
				if once == nil {
					once = lines
				}
				if !slices.Equal(once, lines) {
					i := 0
					for i < min(len(once), len(lines)) && once[i] == lines[i] {
						i++
					}
					t.Fatalf("seed %d, fence %v: line %d: %q, then %q", seed, fences, i, once[i:], lines[i:])
				}
			}
		}
	}
}

func TestHealedSchedules(t *testing.T) {
	for _, fences := range []bool{true, false} {
		for i := range played() / 2 {
			seed := *firstSeed + uint64(i)
			ok := t.Run(fmt.Sprintf("fence %v, -rendezvous.seed=%d -rendezvous.schedules=2", fences, seed), func(t *testing.T) {
				rendezvoustest.PlayHealed(t, seed, func() rendezvoustest.Fleet { return newFleet(fences) })
			})
			if !ok {
				break
			}
		}
	}
}

// TestCoordinatorLostAtEveryStep kills the first coordinator after each of its
// commands.
func TestCoordinatorLostAtEveryStep(t *testing.T) {
	for _, fences := range []bool{true, false} {
		for n := 1; n <= 120; n++ {
			t.Run(fmt.Sprintf("fence %v, command %d", fences, n), func(t *testing.T) {
				rendezvoustest.PlayLostAt(t, n, func() rendezvoustest.Fleet { return newFleet(fences) })
			})
		}
	}
}
