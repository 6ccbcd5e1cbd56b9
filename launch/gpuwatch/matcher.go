package gpuwatch

import (
	"bytes"
	"io"
	"strconv"
	"time"

	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/worker/contract"
)

// World identifies the workers of a round, wherever they run, by their environment.
type World struct {
	Token      string // GORUN_WORLD_TOKEN, only of this round
	RunID      string // GORUN_RUN_ID, which other jobs may also have
	Addr, Port string // MASTER_ADDR and MASTER_PORT: the address of the round's store
}

const (
	maxEnviron = 128 << 10 // bytes of a process's environment that are read
	// environTime bounds the time to read an environment: the kernel may make a
	// reader wait for the memory of a process that hangs.
	environTime = time.Second
)

// relation is the relation of a process to the job.
type relation int

const (
	unsure   relation = iota // the relation cannot be known
	member                   // the process belongs to a rank: a worker started it, or it has a worker's environment
	stranger                 // the process certainly does not belong to the job
)

// matcher finds the rank of processes that are no descendants of this node's
// workers: processes of other agents on this machine, and of containers that a
// worker started with, say, "docker run".
type matcher struct {
	procs Procs
	world World
	stuck map[int]bool // the kernel did not answer in time; the matcher does not ask again
}

func newMatcher(p Procs, w World) *matcher { return &matcher{p, w, map[int]bool{}} }

// assign adds to each rank the processes that hold a GPU and belong to the rank:
// its processes started them, or they have its environment. Members of the world on
// other nodes become ranks that are away. strangers are the processes that
// certainly do not belong to the job.
func (k *matcher) assign(ranks []Rank, held []device.Process) (all []Rank, strangers map[int]bool) {
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

// of returns the relation that a process's environment shows, and the rank of a
// member. It calls no process a stranger that may be a worker without gorun's
// variables, because it did not get them or has overwritten them. That may be a
// process of another container, or a process whose environment cannot be read
// completely.
func (k *matcher) of(pid int) (what relation, rank int) {
	env := k.environ(pid)
	rank, err := strconv.Atoi(entry(env, "RANK"))
	token, run := entry(env, contract.EnvToken), entry(env, contract.EnvRunID)
	ours := token != "" && token == k.world.Token
	// Users often leave gorun's own variables out of a container's environment.
	store := token == "" && k.world.Port != "" && entry(env, "MASTER_ADDR") == k.world.Addr && entry(env, "MASTER_PORT") == k.world.Port
	switch {
	case (ours || store) && err == nil && rank >= 0:
		return member, rank
	case ours || store || len(env) == 0 || len(env) == maxEnviron:
		return unsure, 0
	case run != "" && run == k.world.RunID: // of an earlier round, or of another job with that run id
		return unsure, 0
	case !k.procs.alongside(pid):
		return unsure, 0
	default:
		return stranger, 0
	}
}

// environ returns a process's environment, with a zero byte after every entry. It
// is empty if it cannot be read.
func (k *matcher) environ(pid int) []byte {
	if k.stuck[pid] {
		return nil
	}
	read := make(chan []byte, 1)
	go func() { read <- k.procs.environ(pid) }() // not awaited: see environTime
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

// entry returns the value of a variable in such an environment, or "".
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
