package ncclenv

import (
	"fmt"
	"strconv"
	"strings"
)

// Danger is a setting that is dangerous when it is forced, whatever the other
// nodes have.
type Danger struct {
	Name    string
	Default string // what happens when it is unset, as the rest of "the default is ..."
	Effect  string // what the value leads to, as part of a sentence
	Unless  string // when it may stay, as the rest of "leave it unset unless ..."
	Severe  bool   // hangs or gives wrong results, rather than being slow or noisy
	Nodes   int    // dangerous only in a job of at least so many nodes
	Ranks   int    // dangerous only in a job of at least so many ranks
	Check   string // id of the check that decides with more facts; "" when the value decides

	matches func(value string) bool
}

// Dangerous returns what is wrong with forcing a variable to a value. The caller
// compares Nodes and Ranks with the size of the job. ok is false for a harmless value.
func Dangerous(name, value string) (d Danger, ok bool) {
	for _, d := range dangers {
		if d.Name == name && d.matches(value) {
			return d, true
		}
	}
	return Danger{}, false
}

// Sentence says what is dangerous about the value.
func (d Danger) Sentence(value string) string {
	return fmt.Sprintf("%s=%s is forced: %s; the default is %s; leave it unset unless %s", d.Name, value, d.Effect, d.Default, d.Unless)
}

var dangers = [...]Danger{
	{
		Name: "NCCL_NET", matches: isWord("ib"), Check: "N01", Severe: true,
		Effect:  "a node without libibverbs or RDMA devices ends the job",
		Default: "to use InfiniBand where it works and sockets elsewhere", Unless: "every node has a working adapter",
	},
	{
		Name: "NCCL_SOCKET_IFNAME", matches: isWord("lo", "=lo"), Check: "I01", Severe: true, Nodes: 2,
		Effect:  "no other node can be reached through the loopback interface",
		Default: "the first interface that is up, InfiniBand first", Unless: "the job has one node",
	},
	{
		Name: "NCCL_SOCKET_IFNAME", matches: isWord("^docker0", "^docker", "^=docker0"), Check: "I01", Severe: true, Nodes: 2,
		Effect:  "a list of exclusions replaces NCCL's own, so that lo may be chosen",
		Default: "to avoid lo and docker", Unless: "it excludes lo too (^lo,docker)",
	},
	{
		Name: "NCCL_IB_GID_INDEX", matches: notNegative,
		Effect:  "the right index differs between nodes and changes when an address does",
		Default: "to find it (since 2.21)", Unless: "NCCL is older than 2.21",
	},
	{
		Name: "NCCL_PROTO", matches: hasElement("ll128"), Severe: true,
		Effect:  "LL128 corrupts data on hardware that does not support it",
		Default: "LL128 where it is safe", Unless: "you exclude a protocol to find a bug",
	},
	{
		Name: "NCCL_ALGO", matches: oneElement,
		Effect:  "since 2.24 a function that this algorithm does not support fails",
		Default: "to choose an algorithm for each function and size", Unless: "you measure one algorithm",
	},
	{
		Name: "NCCL_COMM_ID", matches: isSet, Severe: true,
		Effect:  "every communicator meets at one fixed address, so the second one collides",
		Default: "a fresh address for each communicator", Unless: "the program makes its only communicator from it",
	},
	{
		Name: "NCCL_HOSTID", matches: isSet, Check: "H01", Severe: true, Nodes: 2,
		Effect:  "machines with the same value seem to share their memory",
		Default: "the host name and the boot id", Unless: "you unite or separate containers on purpose",
	},
	{
		Name: "NCCL_IB_DISABLE", matches: notZero,
		Effect:  "the network runs over sockets, 10 to 100 times slower than InfiniBand",
		Default: "to use InfiniBand where it works", Unless: "you look for a fault",
	},
	{
		Name: "NCCL_P2P_DISABLE", matches: notZero,
		Effect:  "NVLink is not used, and since 2.27 neither is NVLink across nodes",
		Default: "to use it between all GPUs that support it", Unless: "you look for a fault",
	},
	{
		Name: "NCCL_SHM_DISABLE", matches: notZero,
		Effect:  "ranks of a node that have no NVLink talk over the network",
		Default: "to use shared memory", Unless: "you look for a fault",
	},
	{
		Name: "NCCL_NVLS_ENABLE", matches: isWord("1"),
		Effect:  "the start fails where NVLink SHARP cannot be set up",
		Default: "2, to use it where it works", Unless: "you measure it",
	},
	{
		Name: "NCCL_CUMEM_ENABLE", matches: isWord("1"),
		Effect:  "the start fails where the driver or container does not support it",
		Default: "to use it where it works (since 2.19)", Unless: "you need it for registered buffers on 2.18",
	},
	{
		Name: "NCCL_TOPO_FILE", matches: isSet,
		Effect:  "a file made for other machines gives wrong paths between GPUs and network cards",
		Default: "to look at the machine", Unless: "your provider gave you the file for this very type of machine",
	},
	{
		Name: "NCCL_DEBUG", matches: isWord("info", "trace"), Ranks: 1024,
		Effect:  "every rank writes hundreds of lines at the start, which slows it down",
		Default: "no output", Unless: "you look for a fault",
	},
	{
		Name: "NCCL_DEBUG_FILE", matches: sharedFile, Check: "T01",
		Effect:  "the ranks overwrite each other's file",
		Default: "standard output", Unless: "the name has %h and %p",
	},
	{
		Name: "TORCH_NCCL_ASYNC_ERROR_HANDLING", matches: isZero, Severe: true,
		Effect:  "after an error the ranks wait for ever instead of ending",
		Default: "to end the process", Unless: "the program handles errors of communicators itself",
	},
}

func isSet(value string) bool { return value != "" }

// isWord matches a value that is one of the words, in any case.
func isWord(words ...string) func(string) bool {
	return func(value string) bool {
		for _, w := range words {
			if strings.EqualFold(w, value) {
				return true
			}
		}
		return false
	}
}

// number reads a value as NCCL does (strtoll with base 0). Where number refuses a
// value, NCCL takes its leading digits.
func number(value string) (int64, bool) {
	n, err := strconv.ParseInt(value, 0, 64)
	return n, err == nil
}

func isZero(value string) bool { n, ok := number(value); return ok && n == 0 }

func notZero(value string) bool { n, ok := number(value); return ok && n != 0 }

func notNegative(value string) bool { n, ok := number(value); return ok && n >= 0 }

// elements splits the list that NCCL_ALGO and NCCL_PROTO take: names between commas,
// since 2.24 separately for each function ("ring;allreduce:tree,nvls").
func elements(value string) (names []string, excluded bool) {
	for part := range strings.SplitSeq(value, ";") {
		if _, list, ok := strings.Cut(part, ":"); ok {
			part = list
		}
		list, not := strings.CutPrefix(part, "^")
		excluded = excluded || not
		names = append(names, strings.Split(list, ",")...)
	}
	return names, excluded
}

func hasElement(want string) func(string) bool {
	return func(value string) bool {
		names, excluded := elements(value)
		for _, n := range names {
			if strings.EqualFold(n, want) {
				return !excluded
			}
		}
		return false
	}
}

func oneElement(value string) bool {
	names, excluded := elements(value)
	return len(names) == 1 && names[0] != "" && !excluded && !strings.Contains(value, ":")
}

// sharedFile matches a file name that several ranks would write to. Without %p the
// ranks of a node share the file; without %h, those on a shared file system.
func sharedFile(value string) bool {
	if value == "" || value == "/dev/stdout" || value == "/dev/stderr" || value == "/dev/null" {
		return false
	}
	return !strings.Contains(value, "%p") || !strings.Contains(value, "%h")
}
