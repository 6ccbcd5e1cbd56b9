package worker

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/gorun/gorun/worker/contract"
	"github.com/gorun/gorun/worker/tcp"
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
	OwnStore bool   // rank 0 serves the store if nobody does: there is no agent that could
	Listen   Listen
	Socket   string // GORUN_WORKER_SOCKET; empty: no agent, so no aborts
	Token    string // GORUN_WORLD_TOKEN; empty: rank 0 makes one
	RunID    string // GORUN_RUN_ID
	Device   string // GORUN_DEVICE
}

// Listen says where a rank listens for the others.
type Listen = tcp.Listen

// FromEnv reads Settings from environment variables; lookup is os.LookupEnv or a
// stand-in. Without RANK and WORLD_SIZE the process is one of mpirun's, or a world of one.
func FromEnv(lookup func(string) (string, bool)) (Settings, error) {
	s, err := fromEnv(lookup)
	return s, voiced(err)
}

func fromEnv(lookup func(string) (string, bool)) (Settings, error) {
	get := func(name string) string { v, _ := lookup(name); return v }
	s := Settings{
		Size: 1, LocalSize: 1,
		Listen: Listen{Addr: get(contract.EnvAddr), Iface: get("GLOO_SOCKET_IFNAME"), Ports: get(contract.EnvPorts)},
		Socket: get(contract.EnvSocket),
		Token:  get(contract.EnvToken),
		RunID:  get(contract.EnvRunID),
		Device: get(contract.EnvDevice),
	}
	if get("RANK") == "" && get("WORLD_SIZE") == "" {
		return fromMPI(get, s)
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
		s.OwnStore = s.Socket == "" && get("TORCHELASTIC_USE_AGENT_STORE") != "True"
	}
	return s, s.check()
}

// fromMPI reads the Settings of a process that mpirun (Open MPI) or mpiexec (Hydra) started
// without gorun. All ranks are on one host, and their store is at a port that follows from
// the job.
func fromMPI(get func(string) string, s Settings) (Settings, error) {
	names := []string{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"}
	if get(names[1]) == "" {
		names = []string{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}
	}
	if size := get(names[1]); size == "" || size == "1" {
		return s, nil
	}
	for i, to := range []*int{&s.Rank, &s.Size, &s.LocalRank, &s.LocalSize} {
		n, err := strconv.Atoi(get(names[i]))
		if err != nil || n < i%2 { // the sizes are at least 1
			return Settings{}, fmt.Errorf("%s is %q: mpirun sets a number of at least %d", names[i], get(names[i]), i%2)
		}
		*to = n
	}
	if s.LocalSize != s.Size {
		return Settings{}, fmt.Errorf("mpirun has %d of %d ranks on this host: Go workers of several hosts need gorun: mpirun -N 1 gorun PROGRAM", s.LocalSize, s.Size)
	}
	job := cmp.Or(get("PMIX_NAMESPACE"), get("OMPI_MCA_ess_base_jobid"), get("PMI_PORT"), hydraProxy())
	h := fnv.New32a()
	h.Write([]byte(job))
	s.Store, s.OwnStore = fmt.Sprintf("127.0.0.1:%d", 16384+h.Sum32()%16384), true // below the ports that the kernel gives away
	return s, s.check()
}

// hydraProxy returns the id of the process of Hydra that started the ranks of this host,
// which Hydra gives no name: the nearest ancestor that is one, else the parent.
func hydraProxy() string {
	const deepest = 32 // a shell or two stand between
	for pid, n := os.Getppid(), 0; pid > 1 && n < deepest; n++ {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if bytes.HasPrefix(status, []byte("Name:\thydra_pmi_proxy\n")) {
			return strconv.Itoa(pid)
		}
		_, rest, _ := strings.Cut(string(status), "\nPPid:\t")
		line, _, _ := strings.Cut(rest, "\n")
		pid, _ = strconv.Atoi(line)
	}
	return strconv.Itoa(os.Getppid())
}

func (s Settings) check() error {
	if s.Size < 1 {
		return fmt.Errorf("a world of %d ranks is impossible", s.Size)
	}
	if s.Rank < 0 || s.Rank >= s.Size {
		return fmt.Errorf("rank %d is not in a world of %d: RANK must be from 0 to WORLD_SIZE-1", s.Rank, s.Size)
	}
	return s.Listen.Check()
}
