package worker

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/gorun/gorun/worker/contract"
)

// Settings describes a worker's place in the world. The zero value with Size 1 is a
// world of one.
type Settings struct {
	Rank, Size           int // RANK, WORLD_SIZE
	LocalRank, LocalSize int // LOCAL_RANK, LOCAL_WORLD_SIZE
	Node                 int // GROUP_RANK
	RestartCount         int // TORCHELASTIC_RESTART_COUNT
	Round                int // GORUN_ROUND

	Store    string // host:port of the store: MASTER_ADDR, MASTER_PORT
	NodeAddr string // GORUN_NODE_ADDR; empty: the address from which the store is reached
	Socket   string // GORUN_WORKER_SOCKET; empty: no agent, so no aborts
	Token    string // GORUN_WORLD_TOKEN; empty: rank 0 makes one
	RunID    string // GORUN_RUN_ID
	Device   string // GORUN_DEVICE
}

// FromEnv reads Settings from environment variables; lookup is os.LookupEnv or a
// stand-in. Without RANK and WORLD_SIZE the result is a world of one.
func FromEnv(lookup func(string) (string, bool)) (Settings, error) {
	get := func(name string) string { v, _ := lookup(name); return v }
	s := Settings{
		Size: 1, LocalSize: 1,
		NodeAddr: get(contract.EnvAddr),
		Socket:   get(contract.EnvSocket),
		Token:    get(contract.EnvToken),
		RunID:    get(contract.EnvRunID),
		Device:   get(contract.EnvDevice),
	}
	if get("RANK") == "" && get("WORLD_SIZE") == "" {
		return s, checkAlone(get)
	}
	for _, v := range []struct {
		name     string
		to       *int
		min      int
		required bool
	}{
		{"RANK", &s.Rank, 0, true},
		{"WORLD_SIZE", &s.Size, 1, true},
		{"LOCAL_RANK", &s.LocalRank, 0, false},
		{"LOCAL_WORLD_SIZE", &s.LocalSize, 1, false},
		{"GROUP_RANK", &s.Node, 0, false},
		{"TORCHELASTIC_RESTART_COUNT", &s.RestartCount, 0, false},
		{contract.EnvRound, &s.Round, 0, false},
	} {
		text := strings.TrimSpace(get(v.name))
		if text == "" {
			if v.required {
				return Settings{}, fmt.Errorf("%s is not set, but one of RANK and WORLD_SIZE is: a launcher sets both", v.name)
			}
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < v.min {
			return Settings{}, fmt.Errorf("%s is %q: it must be a number of at least %d", v.name, text, v.min)
		}
		*v.to = n
	}
	if s.Store = get(contract.EnvStore); s.Store != "" {
		return s, s.check()
	}
	if host, port := get("MASTER_ADDR"), get("MASTER_PORT"); host != "" && port != "" {
		s.Store = net.JoinHostPort(host, port)
	}
	return s, s.check()
}

// checkAlone refuses a process of mpirun: it would be a world of its own, in silence, while
// its user means one world of all.
func checkAlone(get func(string) string) error {
	for _, size := range []string{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"} {
		if n, err := strconv.Atoi(get(size)); err == nil && n > 1 {
			return fmt.Errorf("%s is %d, but RANK and WORLD_SIZE are not set: mpirun has no store for Go workers; let it start gorun: mpirun -N 1 gorun PROGRAM", size, n)
		}
	}
	return nil
}

func (s Settings) check() error {
	if s.Size < 1 {
		return fmt.Errorf("a world of %d ranks is impossible", s.Size)
	}
	if s.Rank < 0 || s.Rank >= s.Size {
		return fmt.Errorf("rank %d is not in a world of %d: RANK must be from 0 to WORLD_SIZE-1", s.Rank, s.Size)
	}
	return nil
}
