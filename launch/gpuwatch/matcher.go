package gpuwatch

import (
	"bytes"
	"io"
	"strconv"
	"time"

	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/worker/contract"
)

// World is by what the workers of a round are known wherever they run: what
// their environment says.
type World struct {
	Token      string // GORUN_WORLD_TOKEN, of this round alone
	RunID      string // GORUN_RUN_ID, which other jobs may have too
	Addr, Port string // MASTER_ADDR and MASTER_PORT: where the round's store is
}

const (
	maxEnviron = 128 << 10 // bytes that are read of a process's environment
	// environTime bounds reading it: the kernel may make a reader wait for the
	// memory of a process that hangs.
	environTime = time.Second
)

// relation of a process to the job.
type relation int

const (
	unsure   relation = iota // it cannot be known
	member                   // a rank's: it was started by a worker, or has a worker's environment
	stranger                 // surely none of the job's
)

// matcher finds the rank of processes that no worker of this node is an ancestor
// of: those of other agents on this machine, and what runs in a container that a
// worker has started, as "docker run" does.
type matcher struct {
	procs Procs
	world World
	stuck map[int]bool // the kernel did not tell in time: it is not asked again
}

func newMatcher(p Procs, w World) *matcher { return &matcher{p, w, map[int]bool{}} }

// assign adds to each rank's processes those that hold a GPU and are that rank's:
// started by one of them, or with its environment. Members of the world that are
// not of this node are ranks of their own, away. strangers are the others of
// which that is sure.
func (k *matcher) assign(ranks []Rank, held []device.Held) (all []Rank, strangers map[int]bool) {
	all = k.procs.assign(ranks, held)
	place := map[int]int{} // rank to position in all
	known := map[int]bool{}
	for i, r := range all {
		place[r.Rank] = i
		for _, pid := range r.PIDs {
			known[pid] = true
		}
	}
	strangers = map[int]bool{}
	for _, h := range held {
		if known[h.PID] || strangers[h.PID] || k.procs.Name(h.PID) == "" {
			continue
		}
		switch what, rank := k.of(h.PID); what {
		case member:
			known[h.PID] = true
			i, ok := place[rank]
			if !ok {
				i = len(all)
				place[rank] = i
				all = append(all, Rank{Rank: rank, Away: true})
			}
			all[i].PIDs = append(all[i].PIDs, h.PID)
		case stranger:
			strangers[h.PID] = true
		}
	}
	return all, strangers
}

// of reads what a process says of itself; rank is a member's. Nobody is called a
// stranger who may be a worker that did not get, or has overwritten, what gorun
// gave it: a process of another container, or one whose environment cannot be
// read in full.
func (k *matcher) of(pid int) (what relation, rank int) {
	env := k.environ(pid)
	rank, err := strconv.Atoi(entry(env, "RANK"))
	token, run := entry(env, contract.EnvToken), entry(env, contract.EnvRunID)
	ours := token != "" && token == k.world.Token
	// Of what a container gets, people leave gorun's own variables out.
	store := token == "" && k.world.Port != "" && entry(env, "MASTER_ADDR") == k.world.Addr && entry(env, "MASTER_PORT") == k.world.Port
	switch {
	case (ours || store) && err == nil && rank >= 0:
		return member, rank
	case ours || store || len(env) == 0 || len(env) == maxEnviron:
		return unsure, 0
	case run != "" && run == k.world.RunID: // of an earlier round, or of another job of that name
		return unsure, 0
	case !k.procs.alongside(pid):
		return unsure, 0
	default:
		return stranger, 0
	}
}

// environ is a process's environment, with a zero byte after every entry; empty
// if it cannot be read.
func (k *matcher) environ(pid int) []byte {
	if k.stuck[pid] {
		return nil
	}
	read := make(chan []byte, 1)
	go func() { read <- k.procs.environ(pid) }() // not waited for: see environTime
	limit := time.NewTimer(environTime)
	defer limit.Stop()
	select {
	case env := <-read:
		return env
	case <-limit.C:
		k.stuck[pid] = true
		return nil
	}
}

// entry is the value of a variable in such an environment, "" without it.
func entry(env []byte, name string) string {
	for e := range bytes.SplitSeq(env, []byte{0}) {
		if key, value, ok := bytes.Cut(e, []byte("=")); ok && string(key) == name {
			return string(value)
		}
	}
	return ""
}

func (p Procs) environ(pid int) []byte {
	f, err := p.FS.Open(strconv.Itoa(pid) + "/environ")
	if err != nil {
		return nil
	}
	defer f.Close()
	env, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	if err != nil {
		return nil
	}
	return env
}
