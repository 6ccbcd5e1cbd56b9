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
	// environTimeout bounds the time to read an environment. The kernel may make a
	// reader wait for the memory of a process that hangs.
	environTimeout = time.Second
)

// relation is the relation of a process to the job.
type relation int

const (
	relationUnknown relation = iota
	relationRank             // a worker started the process, or the process has a worker's environment
	relationOther            // the process certainly does not belong to the job
)

// matcher finds the rank of processes that this node's workers did not start:
// processes of other agents on this machine, and of containers that a
// worker started with, say, "docker run".
type matcher struct {
	procs      Procs
	world      World
	unreadable map[int]bool // pids for which the kernel did not answer in time; the matcher does not ask again
}

func newMatcher(p Procs, w World) *matcher { return &matcher{p, w, map[int]bool{}} }

// assign adds to each rank the processes that hold a GPU and belong to the rank:
// its processes started them, or they have its environment. A rank of another node
// gets a new Rank with OtherNode. unrelated holds the processes that certainly do not
// belong to the job.
func (m *matcher) assign(ranks []Rank, list []device.Process) (all []Rank, unrelated map[int]bool) {
	all = m.procs.assign(ranks, list)
	index := map[int]int{} // rank to position in all
	known := map[int]bool{}
	for i, r := range all {
		index[r.Rank] = i
		for _, pid := range r.PIDs {
			known[pid] = true
		}
	}
	unrelated = map[int]bool{}
	for _, h := range list {
		if known[h.PID] || unrelated[h.PID] || m.procs.Name(h.PID) == "" {
			continue
		}
		switch related, rank := m.relationOf(h.PID); related {
		case relationRank:
			known[h.PID] = true
			i, ok := index[rank]
			if !ok {
				i = len(all)
				index[rank] = i
				all = append(all, Rank{Rank: rank, OtherNode: true})
			}
			all[i].PIDs = append(all[i].PIDs, h.PID)
		case relationOther:
			unrelated[h.PID] = true
		}
	}
	return all, unrelated
}

// relationOf returns the relation that a process's environment shows, and the rank for
// relationRank. A worker may be without gorun's variables, because it did not get them
// or has overwritten them. So the relation is unknown for a process of another
// container, and for a process whose environment cannot be read completely.
func (m *matcher) relationOf(pid int) (related relation, rank int) {
	env := m.environ(pid)
	rank, err := strconv.Atoi(environValue(env, "RANK"))
	token, run := environValue(env, contract.EnvToken), environValue(env, contract.EnvRunID)
	sameToken := token != "" && token == m.world.Token
	// Users often leave gorun's own variables out of a container's environment.
	sameStore := token == "" && m.world.Port != "" && environValue(env, "MASTER_ADDR") == m.world.Addr && environValue(env, "MASTER_PORT") == m.world.Port
	switch {
	case (sameToken || sameStore) && err == nil && rank >= 0:
		return relationRank, rank
	case sameToken || sameStore || len(env) == 0 || len(env) == maxEnviron:
		return relationUnknown, 0
	case run != "" && run == m.world.RunID: // of an earlier round, or of another job with that run id
		return relationUnknown, 0
	case !m.procs.sharesFiles(pid):
		return relationUnknown, 0
	default:
		return relationOther, 0
	}
}

// environ returns a process's environment, with a zero byte after every entry. It
// is empty if it cannot be read.
func (m *matcher) environ(pid int) []byte {
	if m.unreadable[pid] {
		return nil
	}
	read := make(chan []byte, 1)
	go func() { read <- m.procs.environ(pid) }() // not awaited: see environTime
	limit := time.NewTimer(environTimeout)
	defer limit.Stop()
	select {
	case env := <-read:
		return env
	case <-limit.C:
		m.unreadable[pid] = true
		return nil
	}
}

// environValue returns the value of a variable in an environment of environ, or "".
func environValue(env []byte, name string) string {
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
