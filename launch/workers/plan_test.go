package workers

import (
	"errors"
	"slices"
	"testing"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/internal/environ"
	"github.com/gorun/gorun/launch/numa"
	"github.com/gorun/gorun/launch/place"
	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/rendezvous"
)

// TestPlanGivesEachWorkerItsRanks checks what one worker is started with: its ranks, the store,
// its devices, and the substituted command.
func TestPlanGivesEachWorkerItsRanks(t *testing.T) {
	p := Plan{
		World: rendezvous.World{
			Round: 2, Restart: 1, MaxRestarts: 3, RunID: "run", Size: 5, Store: "[fd00::1]:29500", Roles: map[string]int{"r": 2},
			Members: []rendezvous.Member{{Workers: 3}, {Addr: "10.0.0.2", Role: "r", Workers: 2, FirstRank: 3}},
		},
		Group: 1, Dir: "/job", Contact: Contact{Socket: "/s.sock", Ports: "7-9"}, Base: envprop.NewBase([]string{"HOME=/h"}),
		Program: program.Program{Path: "/bin/prog", Argv: func(local int) []string { return []string{"prog", program.Substitute("$local_rank", local)} }},
		Places: &place.Plan{Slots: []place.Slot{{}, {
			Devices: envprop.Devices{Pinned: []envprop.Variable{{Name: "CUDA_VISIBLE_DEVICES", Value: "7"}}},
			Binding: numa.Binding{CPUs: numa.Set{0}, Bound: true},
		}}},
	}
	s := p.process(1, "/e.json")
	if s.Path != "/bin/prog" || !slices.Equal(s.Args, []string{"prog", "1"}) || s.Dir != "/job" || s.Around == nil {
		t.Errorf("%+v", s)
	}
	for name, want := range map[string]string{
		"RANK": "4", "LOCAL_RANK": "1", "GROUP_RANK": "1", "WORLD_SIZE": "5", "LOCAL_WORLD_SIZE": "2", "GROUP_WORLD_SIZE": "2",
		"ROLE_RANK": "1", "ROLE_WORLD_SIZE": "2", "ROLE_NAME": "r", "MASTER_ADDR": "fd00::1", "MASTER_PORT": "29500",
		"TORCHELASTIC_RESTART_COUNT": "1", "TORCHELASTIC_MAX_RESTARTS": "3", "TORCHELASTIC_RUN_ID": "run", "TORCHELASTIC_ERROR_FILE": "/e.json",
		"GORUN_WORKER_SOCKET": "/s.sock", "GORUN_WORKER_PORTS": "7-9", "CUDA_VISIBLE_DEVICES": "7", "HOME": "/h",
	} {
		if got := environ.Get(s.Env, name); got != want {
			t.Errorf("%s=%s, want %s", name, got, want)
		}
	}
	if got := p.Command(1); !slices.Equal(got, []string{"/bin/prog", "1"}) {
		t.Errorf("command %q", got)
	}
	if s := p.process(0, ""); s.Around != nil || environ.Get(s.Env, "RANK") != "3" {
		t.Errorf("%+v", s)
	}
	if p.Program.Argv = nil; p.Command(0) != nil { // gorun check without a program
		t.Errorf("command %q", p.Command(0))
	}
}

// TestUnusablePlanEndsTheRound checks that workers that cannot be started fail the round.
func TestUnusablePlanEndsTheRound(t *testing.T) {
	b := newTestRound(t, 2)
	b.round.opts.Plan.Err = errors.New("cannot decode the environment")
	b.round.Start()
	if c := b.posted[0].(rendezvous.Failed).Cause; len(b.posted) != 1 || c.Kind != rendezvous.KindStart || c.Message != "cannot decode the environment" || len(b.table.Processes()) > 0 {
		t.Errorf("%+v", b.posted)
	}
}
