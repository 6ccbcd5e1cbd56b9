package preflight

import (
	"path"
	"slices"
)

// bugRules is V04: known faults of NCCL's releases.
func bugRules() []Rule {
	return []Rule{{
		ID: "V04", Name: "nccl-known-bug", Severity: Warning,
		Meaning: "What the job asks for has no known fault in the NCCL that it loads: RAS queries, NVLS, and other numbers of workers on some nodes. That RAS is on, as it is by itself, in a release in which a query can crash the job is a note.",
		Users:   "A segmentation fault in NCCL's RAS thread while communicators are made, or a hang.",
		Steps:   []Step{byHand("install a release of NCCL without the fault, on all nodes")},
		Check:   checkBugs,
	}}
}

// bug is a fault of the releases from first to last, which shows when used
// holds.
type bug struct {
	first, last int // version codes, both included
	used        func(f *Fleet, n *Facts) bool
	text        string
	steps       func(f *Fleet) []Step
	severity    Severity // "": the rule's
}

// bugs is section 1.5 of the catalogue of checks, with the fault's thread.
func bugs() []bug {
	ras := func(_ *Fleet, n *Facts) bool { return asksRAS(n) }
	// RAS is on by itself, so anybody may ask it; where the job does, that is told.
	open := func(f *Fleet, n *Facts) bool { return n.env("NCCL_RAS_ENABLE") != "0" && !f.look().ras }
	nvls := func(_ *Fleet, n *Facts) bool { return n.on("NCCL_NVLS_ENABLE") }
	uneven := func(f *Fleet, _ *Facts) bool { return f.uneven() != nil }
	without := func(text, name, since string) func(*Fleet) []Step {
		return func(*Fleet) []Step {
			return []Step{everyRank(text, name, "0"), byHand("install NCCL " + since + " or newer on all nodes").or()}
		}
	}
	const unasked = "RAS is on by itself, and whoever asks it (ncclras, a monitor) while a communicator is being made can crash the rank; nothing of this job is known to ask"
	const noRAS, noNVLS = "switch RAS off (gorun itself never queries it)", "switch NVLS off"
	return []bug{
		{22602, 22606, ras, "a RAS query while a communicator is being made can crash the rank (NCCL issues 1669 and 1718, fixed in 2.27.3); polling less often does not help", without(noRAS, "NCCL_RAS_ENABLE", "2.27.3"), ""},
		{22602, 22606, open, unasked + " (NCCL issues 1669 and 1718, fixed in 2.27.3)", without(noRAS, "NCCL_RAS_ENABLE", "2.27.3"), Note},
		{22703, 22899, ras, "RAS' VERBOSE STATUS corrupts memory (NCCL issue 1762, fixed in 2.29.2)", without(noRAS, "NCCL_RAS_ENABLE", "2.29.2"), ""},
		{22907, 23007, ras, "a RAS query while a communicator is being made can crash the rank (NCCL issue 2346)", without(noRAS, "NCCL_RAS_ENABLE", "2.30.8"), ""},
		{22907, 23007, open, unasked + " (NCCL issue 2346)", without(noRAS, "NCCL_RAS_ENABLE", "2.30.8"), Note},
		{22703, 22899, nvls, "where NVLS does not work on one node, the silent fallback of these releases can hang", without(noNVLS, "NCCL_NVLS_ENABLE", "2.29"), ""},
		{23102, 23102, uneven, "this release can deadlock when nodes have different numbers of ranks (NCCL issue 2385)", (*Fleet).sameWorkers, ""},
	}
}

func checkBugs(f *Fleet) []Finding {
	if !f.look().nccl {
		return nil
	}
	var all []Finding
	for _, b := range bugs() {
		values := f.faults(func(_ int, n *Facts) string {
			code := n.ncclCode()
			if code < b.first || code > b.last || !b.used(f, n) {
				return ""
			}
			return "NCCL " + versionOf(code)
		})
		all = append(all, one(values, Finding{Severity: b.severity, Text: "Known fault of this NCCL: " + b.text + ".", Steps: b.steps(f)})...)
	}
	return all
}

// asksRAS reports whether the user asked for RAS: it is on by itself, but only
// a client makes it dangerous.
func asksRAS(n *Facts) bool {
	if n.env("NCCL_RAS_ENABLE") == "0" {
		return false
	}
	_, addr := n.setting("NCCL_RAS_ADDR")
	isClient := func(arg string) bool { return path.Base(arg) == "ncclras" }
	return addr || n.on("NCCL_RAS_ENABLE") ||
		isClient(n.Program.Title) || isClient(n.Program.Path) || slices.ContainsFunc(n.Program.Args, isClient)
}
