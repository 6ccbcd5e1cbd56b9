package compat_test

import (
	"fmt"
	"os"
	"path"
	"sync"
)

// allowedDifference is a difference that gorun is meant to have.
type allowedDifference struct {
	cases  string // a name, or a pattern of path.Match
	key    string // likewise, of the outcome's keys
	reason string
}

// allowed lists the differences that are meant, each with its reason.
func allowed() []allowedDifference {
	const crash = "torchrun ends with a traceback of its own where it cannot read a worker's error file"
	return []allowedDifference{
		{"*/*", "worker * GORUN_*", "gorun tells workers of itself, too"},
		{"*/*", "worker * NCCL_ASYNC_ERROR_HANDLING", "the name of torch 1.13; torch since 2.2 warns of it"},
		{"*/*", "worker * TORCH_NCCL_ASYNC_ERROR_HANDLING", "its name in torch since 2.2"},
		{"*/*", "worker * TORCHELASTIC_SIGNALS_TO_HANDLE", "as torch since 2.9"},
		{"*/*", "worker * PYTHONFAULTHANDLER", "a worker that crashes in native code says in which line of the program it was"},

		{"start/standalone*", "worker * MASTER_ADDR", "an address needs no name service"},
		{"start/c10d*", "worker * MASTER_ADDR", "likewise"},
		{"start/elastic on one node", "worker * MASTER_ADDR", "likewise"},
		{"flag/prefix stand", "worker * MASTER_ADDR", "likewise"},
		{"variable/standalone on", "worker * MASTER_ADDR", "likewise"},
		{"variable/rendezvous", "worker * MASTER_ADDR", "likewise"},
		{"log/standalone", "worker * MASTER_ADDR", "likewise"},
		{"end/standalone", "worker * MASTER_ADDR", "likewise"},
		{"signal/standalone", "worker * MASTER_ADDR", "likewise"},
		{"restart/standalone", "worker * MASTER_ADDR", "likewise"},
		{"nodes/c10d*", "worker * MASTER_ADDR", "likewise"},
		{"start/static without a port", "*", "torchrun fails; gorun takes port 29500"},
		{"nodes/c10d*", "worker * TORCHELASTIC_USE_AGENT_STORE", "as torch since 2.2: the agent has the store"},
		{"start/elastic on one node", "worker * TORCHELASTIC_USE_AGENT_STORE", "likewise"},
		{"nodes/static at an endpoint", "worker * MASTER_PORT", "an endpoint for several nodes means c10d, unless static is asked for"},
		{"nodes/c10d, both fail", "node 1 *", "one cause for the whole job, on every node"},

		{"wrong/missing value*", "error", "gorun adds what the value is"},
		{"wrong/no*", "error", "gorun's help calls it PROGRAM"},
		{"wrong/switch with a value", "error", "gorun adds what a switch takes"},
		{"wrong/restarts without a value", "error", "gorun adds where the value comes from"},
		{"wrong/interval by variable", "error", "likewise"},

		{"flag/empty role", "worker * ROLE_NAME", "an empty value mostly is a shell variable that is not set: the default counts"},
		{"program/missing script", "log", "gorun starts no worker for a script that is not there"},
		{"program/missing script", "report", "likewise"},
		{"program/run path*", "worker * command", "each worker is a process of its own, whatever --start-method says"},
		{"launch/*", "worker * argv", "--local-rank, as torch since 2.0 spells it"},
		{"launch/*", "worker * command", "likewise"},
		{"log/folder of the working folder", "worker * TORCHELASTIC_ERROR_FILE", "a full path, which a worker that changes its folder finds, too"},
		{"log/tee bytes", "stdout", "torchrun's thread ends at bytes that are no text; gorun passes them on"},

		{"error file/several lines", "report", "indented, so that no text of a worker is taken for the report's own"},
		{"error file/empty call stack", "report", "the message says more than an empty call stack"},
		{"error file/no message", "*", crash},
		{"error file/no extraInfo", "*", crash},
		{"error file/half-written", "*", crash},
		{"error file/empty", "*", crash},
		{"error file/no JSON", "*", crash},
		{"error file/a list", "*", crash},
		{"error file/null", "*", crash},
		{"error file/a number", "*", crash},
	}
}

// allowedLater lists the differences that are meant besides to torch 2.11.
func allowedLater() []allowedDifference {
	const (
		store     = "rank 0 has the store, as under 1.13, so that a worker's own tcp:// store works, too"
		victims   = "torchrun lists the workers that it stopped itself, too; 1.13 does not"
		spellings = "torchrun takes two spellings of one flag for two flags; 1.13 does not"
		newer     = "a flag that torchrun has got since 2.11"
	)
	return append(allowedOnGPUs(), []allowedDifference{
		{"*/*standalone*", "worker * TORCHELASTIC_USE_AGENT_STORE", store},
		{"start/c10d*", "worker * TORCHELASTIC_USE_AGENT_STORE", store},
		{"variable/rendezvous", "worker * TORCHELASTIC_USE_AGENT_STORE", store},
		{"later/local address", "worker * TORCHELASTIC_USE_AGENT_STORE", store},
		{"flag/prefix stand", "worker * TORCHELASTIC_USE_AGENT_STORE", store},
		{"end/one of *", "report", victims},
		{"end/the first of two", "report", victims},
		{"end/the others *", "report", victims},
		{"end/standalone", "report", victims},
		{"error file/@record of one of two", "report", victims},
		{"launch/failure", "report", victims},
		{"restart/in vain", "report", victims},
		{"flag/mixed", "*", "a flag may be written with dashes and underscores"},
		{"flag/prefix *", "*", spellings},
		{"launch/prefix", "*", spellings},
		{"wrong/ambiguous prefix*", "error", "the flags of 1.13 come first, so that its prefixes stay unambiguous"},
		{"later/prefix template", "*", newer},
		{"later/*shutdown timeout*", "*", newer},
		{"later/*completion", "*", newer},
		{"later/numa binding", "error", "gorun has one value more: none"},
		{"later/quotes in the configuration", "*", "torchrun refuses them with static"},
		{"later/duplicate stdout filters without tee", "*", "torchrun makes the file and leaves it empty"},
	}...)
}

// allowedOnGPUs lists the differences that are meant besides where there are GPUs.
func allowedOnGPUs() []allowedDifference {
	if _, err := os.Stat("/dev/nvidiactl"); err != nil {
		return nil
	}
	const recorder = "gorun makes the flight recorder available"
	return []allowedDifference{
		{"*/*", "worker * TORCH_FR_*", recorder},
		{"*/*", "worker * TORCH_NCCL_DUMP_ON_TIMEOUT", recorder},
		{"*/*", "worker * TORCH_NCCL_DEBUG_INFO_PIPE_FILE", recorder},
	}
}

// tally keeps which allowed differences occurred.
type tally struct {
	table  []allowedDifference
	mu     sync.Mutex
	seen   map[int]bool // by index of table
	played []string     // cases
}

// allows reports whether a difference is allowed.
func (y *tally) allows(name string, d difference) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	isAllowed := false
	for i, a := range y.table {
		if matches(a.cases, name) && matches(a.key, d.key) {
			if y.seen == nil {
				y.seen = map[int]bool{}
			}
			y.seen[i], isAllowed = true, true
		}
	}
	return isAllowed
}

// done notes that a case was played to its end.
func (y *tally) done(name string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.played = append(y.played, name)
}

// missing returns a line for each allowed difference that did not occur, although its
// cases were played.
func (y *tally) missing() []string {
	var lines []string
	for i, a := range y.table {
		for _, name := range y.played {
			if matches(a.cases, name) && !y.seen[i] {
				lines = append(lines, fmt.Sprintf("%s, %s: the difference is allowed and does not occur: take it out (%s)", a.cases, a.key, a.reason))
				break
			}
		}
	}
	return lines
}

// matches reports whether a name fits a pattern of path.Match; "*" fits any name.
func matches(pattern, name string) bool {
	ok, _ := path.Match(pattern, name)
	return ok || pattern == "*"
}
