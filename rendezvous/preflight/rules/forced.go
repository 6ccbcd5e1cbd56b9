package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// forcedRules returns E02: values that do harm.
func forcedRules() []preflight.Rule {
	return []preflight.Rule{{
		ID: "E02", Name: "env-forced", Severity: preflight.Warning,
		Meaning: "No value is forced that is dangerous or slow by itself; one from a conf file that is merely slow or narrow is a note.",
		Symptom: "A slow job, corrupt data, or a hang whose cause is a variable left from debugging.",
		Steps:   []preflight.Step{preflight.ToGorun.Step("unless you need it, unset it", "--unset NCCL_P2P_DISABLE")},
		Check:   checkForced,
	}}
}

func checkForced(f *preflight.Fleet) []preflight.Finding {
	if !f.View().NCCL {
		return nil
	}
	// severity returns "" for a harmless value.
	severity := func(s ncclenv.Value) preflight.Severity {
		switch d, ok := dangers[s.Name]; {
		case !ok || !d.matches(s.Value) || f.View().Ranks < d.ranks:
			return ""
		case d.severe || s.Source == ncclenv.Environment:
			return preflight.Warning
		default:
			return preflight.Note
		}
	}
	return bySeverity(f, func(_ int, n *preflight.Facts, add func(preflight.Severity, string)) {
		for _, s := range n.Settings {
			if level := severity(s); level != "" {
				add(level, dangers[s.Name].sentence(s))
			}
		}
	}, func(level preflight.Severity, _ []int) preflight.Finding {
		x := preflight.Finding{
			Text:  "Variables are forced to values that are dangerous or slow.",
			Steps: unsetVariables(f, "unless you need it, unset it", func(s ncclenv.Value) bool { return severity(s) == level }),
		}
		if level == preflight.Note {
			x.Text = "Conf files force variables that are best left to NCCL."
		}
		return x
	})
}

// danger describes the values of a variable that do harm when they are forced,
// whatever the other nodes have.
type danger struct {
	effect  string // what the value leads to, as part of a sentence
	unset   string // what happens when it is unset, as the rest of "the default is ..."
	unless  string // when it may stay, as the rest of "leave it unset unless ..."
	severe  bool   // the value leads to a hang or to wrong results, not only to a slow or noisy job
	ranks   int    // the value does harm only in a job of at least so many ranks
	matches func(value string) bool
}

// sentence says what is dangerous about a value.
func (d danger) sentence(s ncclenv.Value) string {
	return fmt.Sprintf("%s=%s is forced: %s; the default is %s; leave it unset unless %s", s.Name, s.Value, d.effect, d.unset, d.unless)
}

// dangers are the dangers by variable. Values that only more facts show to be
// wrong have rules of their own: NCCL_NET (N01), NCCL_SOCKET_IFNAME (I01),
// NCCL_HOSTID (H01) and NCCL_DEBUG_FILE (T01).
var dangers = map[string]danger{
	"NCCL_IB_GID_INDEX": {
		matches: isNumber(isNotNegative),
		effect:  "the right index differs between nodes and changes when an address does",
		unset:   "to find it (since 2.21)", unless: "NCCL is older than 2.21",
	},
	"NCCL_PROTO": {
		matches: hasElement("ll128"), severe: true,
		effect: "LL128 corrupts data on hardware that does not support it",
		unset:  "LL128 where it is safe", unless: "you exclude a protocol to find a bug",
	},
	"NCCL_ALGO": {
		matches: hasOneElement,
		effect:  "since 2.24 a function that this algorithm does not support fails",
		unset:   "to choose an algorithm for each function and size", unless: "you measure one algorithm",
	},
	"NCCL_COMM_ID": {
		matches: isSet, severe: true,
		effect: "every communicator meets at one fixed address, so the second one collides",
		unset:  "a fresh address for each communicator", unless: "the program makes its only communicator from it",
	},
	"NCCL_IB_DISABLE": {
		matches: isNumber(isNotZero),
		effect:  "the network runs over sockets, 10 to 100 times slower than InfiniBand",
		unset:   "to use InfiniBand where it works", unless: "you look for a fault",
	},
	"NCCL_P2P_DISABLE": {
		matches: isNumber(isNotZero),
		effect:  "NVLink is not used, and since 2.27 neither is NVLink across nodes",
		unset:   "to use it between all GPUs that support it", unless: "you look for a fault",
	},
	"NCCL_SHM_DISABLE": {
		matches: isNumber(isNotZero),
		effect:  "ranks of a node that have no NVLink talk over the network",
		unset:   "to use shared memory", unless: "you look for a fault",
	},
	"NCCL_NVLS_ENABLE": {
		matches: isWord("1"),
		effect:  "the start fails where NVLink SHARP cannot be set up",
		unset:   "2, to use it where it works", unless: "you measure it",
	},
	"NCCL_CUMEM_ENABLE": {
		matches: isWord("1"),
		effect:  "the start fails where the driver or container does not support it",
		unset:   "to use it where it works (since 2.19)", unless: "you need it for registered buffers on 2.18",
	},
	"NCCL_TOPO_FILE": {
		matches: isSet,
		effect:  "a file made for other machines gives wrong paths between GPUs and network cards",
		unset:   "to look at the machine", unless: "your provider gave you the file for this very type of machine",
	},
	"NCCL_DEBUG": {
		matches: isWord("info", "trace"), ranks: 1024,
		effect: "every rank writes hundreds of lines at the start, which slows it down",
		unset:  "no output", unless: "you look for a fault",
	},
	"TORCH_NCCL_ASYNC_ERROR_HANDLING": {
		matches: isNumber(isZero), severe: true,
		effect: "after an error the ranks wait for ever instead of ending",
		unset:  "to end the process", unless: "the program handles errors of communicators itself",
	},
}

func isSet(value string) bool { return value != "" }

// isWord matches a value that is one of the words, in any case.
func isWord(words ...string) func(string) bool {
	return func(value string) bool { return containsWord(words, value) }
}

func containsWord(words []string, value string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, value) })
}

// isNumber matches a number for which is holds. NCCL reads numbers so (strtoll
// with base 0), but of a text it takes the leading digits.
func isNumber(is func(n int64) bool) func(string) bool {
	return func(value string) bool {
		n, err := strconv.ParseInt(value, 0, 64)
		return err == nil && is(n)
	}
}

func isZero(n int64) bool { return n == 0 }

func isNotZero(n int64) bool { return n != 0 }

func isNotNegative(n int64) bool { return n >= 0 }

// elements splits the list that NCCL_ALGO and NCCL_PROTO take: names between
// commas, since 2.24 separately for each function
// ("ring;allreduce:tree,nvls").
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
		return !excluded && containsWord(names, want)
	}
}

func hasOneElement(value string) bool {
	names, excluded := elements(value)
	return len(names) == 1 && names[0] != "" && !excluded && !strings.Contains(value, ":")
}
