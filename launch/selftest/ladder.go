package selftest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Rank is one worker of the job.
type Rank struct {
	Rank   int    `json:"rank"`
	Local  int    `json:"local_rank"`
	Node   int    `json:"node"` // group rank
	Host   string `json:"host"`
	Device string `json:"device,omitempty"` // UUID of its GPU
	// OnlyCPU says that its gorun cannot compute on GPUs.
	OnlyCPU bool `json:"only_cpu,omitempty"`
	GPU     *GPU `json:"gpu,omitempty"` // as the rung load found it
}

// text names the rank, its node and its GPU.
func (r *Rank) text() string {
	if r.Device != "" {
		return fmt.Sprintf("rank %d (local rank %d, %s) on %s", r.Rank, r.Local, r.Device, r.Host)
	}
	return fmt.Sprintf("rank %d (local rank %d) on %s", r.Rank, r.Local, r.Host)
}

// Kind says what the processes of a group do.
type Kind string

// The kinds of tests.
const (
	KindLoad      Kind = "load" // start, load the libraries
	KindCopy      Kind = "copy" // in memory
	KindAllReduce Kind = "all-reduce"
	KindRing      Kind = "ring" // send to the next rank, receive from the one before
	KindAllToAll  Kind = "all-to-all"
)

// End says how the process of a rank ended.
type End string

// The ends, the most telling first: a process that crashed explains why its partners
// lost their connection.
const (
	EndCrashed End = "crashed"
	EndWrong   End = "wrong values"
	EndBroken  End = "NCCL failed" // in a group of several ranks
	EndFailed  End = "failed"
	EndStuck   End = "did not end by itself" // after its deadline
	EndLate    End = "not done in time"
	EndLost    End = "lost a partner"
	EndPassed  End = "passed"
)

// severity orders ends, the most telling first.
func (e End) severity() int {
	return slices.Index([]End{EndCrashed, EndWrong, EndFailed, EndBroken, EndStuck, EndLate, EndLost}, e)
}

// isOwn reports whether a rank ends so of its own doing. Wrong values may come from any
// rank of the group, and what waits or loses its connection may do so for its partners.
func (e End) isOwn() bool { return e == EndCrashed || e == EndFailed }

// Result is what the process of one rank found.
type Result struct {
	Rank   int      `json:"rank"`
	End    End      `json:"end"`
	Text   string   `json:"text,omitempty"` // why it did not pass
	Timing []Timing `json:"timing,omitempty"`
	GPU    *GPU     `json:"gpu,omitempty"` // of the rung load
	// NoNCCL says that the rank has a GPU and a driver, but no NCCL was found.
	NoNCCL bool `json:"no_nccl,omitempty"`
}

// Timing is the time of one call.
type Timing struct {
	Bytes   int     `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

// Scope says which part of the ladder is played.
type Scope string

// The scopes of a self-test.
const (
	ScopeFull  Scope = "full"
	ScopeQuick Scope = "quick" // before a job: seconds
	ScopeLinks Scope = "links" // each node with each other node
)

// rung is one rung of the ladder.
type rung struct {
	name     string
	kind     Kind
	sizes    sizes
	deadline time.Duration
	of       unit
	paired   bool // tests pairs of units, else all ranks of each unit
	in       []Scope
	onlyGPU  bool
}

// sizes are the bytes of a rung's calls.
type sizes struct {
	cpu, cpuQuick []int
	gpu, gpuQuick []int
}

// of returns the sizes for a scope. A quick test without sizes of its own has those of the
// full one.
func (s *sizes) of(scope Scope, compute Compute) []int {
	full, quick := s.cpu, s.cpuQuick
	if compute == ComputeGPU {
		full, quick = s.gpu, s.gpuQuick
	}
	if scope == ScopeQuick && quick != nil {
		return quick
	}
	return full
}

// unit is what a rung tests: single ranks, the ranks of a node, nodes, all.
type unit int

const (
	unitRank  unit = iota // ranks; in pairs: of the same node
	unitRail              // in pairs: ranks of different nodes with the same local rank
	unitNode              // all ranks of each node; in pairs: all ranks of two nodes
	unitFirst             // the first rank of each node
	unitWorld             // all ranks
)

// inLanes reports whether the rung's pairs are of ranks: of a node, or of a rail.
func (g *rung) inLanes() bool { return g.paired && (g.of == unitRank || g.of == unitRail) }

const (
	kib = 1 << 10
	mib = 1 << 20
)

// ladder returns the rungs, the smallest first (reference: DLRover's node check, Azure
// NHC and Meta's gcm test in this order: load, alone, node, pairs of nodes, all).
func ladder(compute Compute) []rung {
	full, quick, links := ScopeFull, ScopeQuick, ScopeLinks
	least := 20 * time.Second
	if compute == ComputeGPU { // the driver may have to load its state first
		least = time.Minute
	}
	most := max(least, 30*time.Second)
	all := []rung{
		{name: "load", kind: KindLoad, deadline: least, of: unitRank, in: []Scope{full, quick, links}},
		{name: "alone", kind: KindCopy, sizes: sizes{cpu: []int{64 * mib}, gpu: []int{256 * mib}}, deadline: least, of: unitRank, in: []Scope{full}},
		{name: "pairs in a node", kind: KindAllReduce, sizes: sizes{cpu: []int{8, mib}, gpu: []int{8, largeEnough}}, deadline: least, of: unitRank, paired: true, in: []Scope{full}},
		{name: "node", kind: KindAllReduce, sizes: sizes{cpu: []int{8, 16 * mib}, cpuQuick: []int{8, mib}, gpu: []int{8, mib, 256 * mib}, gpuQuick: []int{8, mib}}, deadline: most, of: unitNode, in: []Scope{full, quick}},
		{name: "pairs of nodes", kind: KindAllReduce, sizes: sizes{cpu: []int{8, 4 * mib}, gpu: []int{8, 64 * mib}}, deadline: most, of: unitFirst, paired: true, in: []Scope{full, links}},
		{name: "rails", kind: KindAllReduce, sizes: sizes{gpu: []int{8, 64 * mib}}, deadline: most, of: unitRail, paired: true, in: []Scope{full}, onlyGPU: true},
		{name: "pairs of nodes, all ranks", kind: KindAllReduce, sizes: sizes{cpu: []int{8, 4 * mib}, gpu: []int{8, 64 * mib}}, deadline: most, of: unitNode, paired: true, in: []Scope{full}},
		{name: "ring", kind: KindRing, sizes: sizes{cpu: []int{8, mib}, cpuQuick: []int{64 * kib}, gpu: []int{8, 16 * mib}, gpuQuick: []int{64 * kib}}, deadline: most, of: unitWorld, in: []Scope{full, quick}},
		{name: "all-reduce", kind: KindAllReduce, sizes: sizes{cpu: []int{8, mib, 16 * mib}, cpuQuick: []int{8, mib}, gpu: []int{8, mib, 256 * mib}, gpuQuick: []int{8, mib}}, deadline: time.Minute, of: unitWorld, in: []Scope{full, quick}},
		{name: "all-to-all", kind: KindAllToAll, sizes: sizes{cpu: []int{64 * kib, mib}, gpu: []int{64 * kib, 8 * mib}}, deadline: time.Minute, of: unitWorld, in: []Scope{full}},
	}
	return slices.DeleteFunc(all, func(g rung) bool { return g.onlyGPU && compute != ComputeGPU })
}

// maxExchange bounds what a rank sends in an all-to-all, so that a job of thousands of
// ranks has the memory and the time for it.
const maxExchange = 64 * mib

// sizesFor returns the sizes of the rung for these groups.
func (l *Ladder) sizesFor(g rung, groups [][]int) []int {
	all := g.sizes.of(l.scope, l.compute)
	if g.kind != KindAllToAll {
		return all
	}
	largest := 1
	for _, ranks := range groups {
		largest = max(largest, len(ranks))
	}
	var bounded []int
	for _, size := range all {
		bounded = append(bounded, min(size, max(8, maxExchange/largest&^7)))
	}
	return slices.Compact(bounded)
}

// Ladder decides what is tested next, and in the end who is to blame.
type Ladder struct {
	ranks       []Rank // by rank
	nodes       [][]int
	scope       Scope
	compute     Compute
	mayUseCPU   bool   // if no rank finds NCCL
	withoutNCCL int    // ranks that did not find it
	rungs       []rung // left to play, the present one first
	step        int
	played      [][]pairResult   // rounds of the present rung, of nodes
	lanes       [][]int          // of a rung that pairs ranks: those that are paired with each other
	local       [][][]pairResult // rounds of each lane
	report      Report
	last        Plan
}

// NewLadder returns the ladder for the ranks of a job, in the order of their numbers.
func NewLadder(ranks []Rank, scope Scope, compute Compute) *Ladder {
	l := &Ladder{ranks: ranks, scope: scope, compute: compute}
	for _, r := range ranks {
		for r.Node >= len(l.nodes) {
			l.nodes = append(l.nodes, nil)
		}
		l.nodes[r.Node] = append(l.nodes[r.Node], r.Rank)
	}
	for _, g := range ladder(compute) {
		if slices.Contains(g.in, scope) {
			l.rungs = append(l.rungs, g)
		}
	}
	l.report = newReport(ranks, l.nodes, compute)
	if scope == ScopeLinks && len(l.nodes) < 2 {
		l.report.Warnings = append(l.report.Warnings, "one node has no links to other nodes: give --nnodes, or start gorun selftest on more nodes")
	}
	return l
}

// Next takes the results of the plan before, in any order, and returns the next plan. It
// returns false at the end of the ladder; then Report has the verdict.
func (l *Ladder) Next(results []Result) (Plan, bool) {
	if l.step > 0 {
		l.take(results)
	}
	for len(l.rungs) > 0 && l.report.Failure == nil {
		if groups := l.groups(); groups != nil {
			g := l.rungs[0]
			l.last = Plan{l.step, g.name, 0, g.kind, l.compute, l.sizesFor(g, groups), l.withNodes(groups), g.deadline, len(l.rungs) == 1 && !g.paired}
			if g.paired {
				l.last.Round = len(l.played) + 1
			}
			l.step++
			return l.last, true
		}
		l.endRung()
	}
	return Plan{}, false
}

// withNodes adds the node of each rank.
func (l *Ladder) withNodes(groups [][]int) []Group {
	var with []Group
	for _, ranks := range groups {
		g := Group{Ranks: ranks}
		for _, rank := range ranks {
			g.Nodes = append(g.Nodes, l.ranks[rank].Node)
		}
		with = append(with, g)
	}
	return with
}

// warn adds a warning to the report.
func (l *Ladder) warn(format string, args ...any) {
	l.report.Warnings = append(l.report.Warnings, fmt.Sprintf(format, args...))
}

// failCounts makes the failure of nodes with fewer GPUs than others, before the first rung.
func (l *Ladder) failCounts(counts map[int]int) {
	all := make([]int, len(l.nodes))
	for node, n := range counts {
		all[node] = n
	}
	if f := l.report.fewerGPUs(all); f != nil {
		f.Rung = l.rungs[0].name
		l.report.Failure, l.report.OK = f, false
		for _, g := range l.rungs {
			l.report.NotPlayed = append(l.report.NotPlayed, g.name)
		}
	}
}

// Report returns what the ladder has found so far.
func (l *Ladder) Report() *Report { return &l.report }

// groups returns the groups of the present rung's next round, nil after the last.
func (l *Ladder) groups() [][]int {
	g := l.rungs[0]
	if !g.paired {
		if len(l.played) > 0 {
			return nil
		}
		return l.wholes(g.of)
	}
	if !g.inLanes() {
		return l.nodePairs(g)
	}
	if l.lanes == nil {
		l.lanes = l.lanesOf(g.of)
		l.local = make([][][]pairResult, len(l.lanes))
	}
	var groups [][]int
	for i, ranks := range l.lanes {
		for _, pair := range nextPairs(len(ranks), l.local[i]) {
			groups = append(groups, pick(ranks, pair))
		}
	}
	return groups
}

// lanesOf returns the ranks that are paired with each other: those of a node, or those of
// the same place in different nodes. Where each node has one rank, pairs of nodes were the
// same.
func (l *Ladder) lanesOf(of unit) [][]int {
	if of == unitRank {
		return l.nodes
	}
	var lanes [][]int
	for _, ranks := range l.nodes {
		for place, rank := range ranks {
			if place == len(lanes) {
				lanes = append(lanes, nil)
			}
			lanes[place] = append(lanes[place], rank)
		}
	}
	if len(lanes) == 1 {
		return nil
	}
	return lanes
}

// nodePairs returns the groups of the next round of a rung that pairs nodes.
func (l *Ladder) nodePairs(g rung) [][]int {
	next := nextPairs(len(l.nodes), l.played)
	if l.scope == ScopeLinks {
		next = pairsOfRound(len(l.nodes), len(l.played))
	}
	single := !slices.ContainsFunc(l.nodes, func(ranks []int) bool { return len(ranks) > 1 })
	if g.of == unitNode && single { // the pairs of first ranks were the same
		return nil
	}
	var groups [][]int
	for _, pair := range next {
		var group []int
		for _, n := range pair {
			if g.of == unitFirst {
				group = append(group, l.nodes[n][0])
			} else {
				group = append(group, l.nodes[n]...)
			}
		}
		groups = append(groups, group)
	}
	return groups
}

// wholes returns one group for each unit. A group that a smaller rung tested already is
// left out.
func (l *Ladder) wholes(of unit) [][]int {
	var groups [][]int
	switch of {
	case unitRank:
		for _, r := range l.ranks {
			groups = append(groups, []int{r.Rank})
		}
	case unitNode:
		for _, ranks := range l.nodes {
			if len(ranks) > 1 {
				groups = append(groups, ranks)
			}
		}
	default:
		var all []int
		for _, r := range l.ranks {
			all = append(all, r.Rank)
		}
		if len(all) > 1 {
			groups = [][]int{all}
		}
	}
	return groups
}

// testedNodes returns how many nodes a rung of whole units tests.
func (l *Ladder) testedNodes(of unit) int {
	n := 0
	for _, ranks := range l.nodes {
		if of == unitRank || len(ranks) > 1 {
			n++
		}
	}
	return n
}

// take records the results of the last plan.
func (l *Ladder) take(results []Result) {
	g, byRank := l.rungs[0], make(map[int]Result)
	for _, r := range results {
		byRank[r.Rank] = r
		if r.GPU != nil && g.kind == KindLoad {
			l.ranks[r.Rank].GPU = r.GPU
		}
		if r.NoNCCL {
			l.withoutNCCL++
		}
	}
	var round []pairResult
	rounds := make([][]pairResult, len(l.lanes))
	for _, tested := range l.last.Groups {
		group := tested.Ranks
		one, owners := l.judge(group, byRank)
		l.report.add(l.last, group, one)
		lane, units := l.unitsOf(g, group)
		p := pairResult{units: units, ok: one.End == EndPassed, seconds: one.seconds()}
		round = append(round, p)
		if g.inLanes() {
			rounds[lane] = append(rounds[lane], p)
		}
		if p.ok {
			continue
		}
		l.report.failed = append(l.report.failed, failedGroup{group, one, owners})
	}
	l.played = append(l.played, round)
	if g.inLanes() {
		for i, r := range rounds {
			if r != nil {
				l.local[i] = append(l.local[i], r)
			}
		}
	}
}

// judge returns the result of a group: the most telling of its ranks' results, and those
// that a rank has of its own doing, not because of its partners, if at most half of the
// ranks have such. A rank without a result is late.
func (l *Ladder) judge(group []int, byRank map[int]Result) (Result, []Result) {
	worst := Result{End: EndPassed}
	var owners []Result
	for _, rank := range group {
		r, ok := byRank[rank]
		if !ok {
			r = Result{Rank: rank, End: EndStuck, Text: noAnswer}
		}
		r.Text = withRanks(r.Text, group)
		if r.End.isOwn() {
			owners = append(owners, r)
		}
		switch {
		case r.End == EndPassed && worst.End == EndPassed:
			if r.seconds() >= worst.seconds() {
				worst = r
			}
		case worst.End == EndPassed, r.End != EndPassed && r.End.severity() < worst.End.severity():
			worst = r
		}
	}
	if !worst.End.isOwn() || 2*len(owners) > len(group) {
		owners = nil
	}
	return worst, owners
}

// withRanks adds the ranks of a group to a text that counts them from 0.
func withRanks(text string, group []int) string {
	counted := true
	for i, rank := range group {
		counted = counted && rank == i
	}
	if counted || len(group) == 1 || !strings.Contains(text, "rank ") {
		return text
	}
	var ranks []string
	for _, rank := range group {
		ranks = append(ranks, strconv.Itoa(rank))
	}
	const most = 8
	if len(ranks) > most {
		ranks = append(ranks[:most:most], "…")
	}
	return fmt.Sprintf("%s (the group counts its ranks %s from 0)", text, strings.Join(ranks, ", "))
}

// seconds returns the time of the largest call.
func (r *Result) seconds() float64 {
	if len(r.Timing) == 0 {
		return 0
	}
	return r.Timing[len(r.Timing)-1].Seconds
}

// unitsOf returns the units of a group: for pairs of ranks places in their lane, else
// nodes.
func (l *Ladder) unitsOf(g rung, group []int) (lane int, units []int) {
	if g.inLanes() {
		lane = slices.IndexFunc(l.lanes, func(ranks []int) bool { return slices.Contains(ranks, group[0]) })
	}
	for _, rank := range group {
		u := l.ranks[rank].Node
		if g.inLanes() {
			u = slices.Index(l.lanes[lane], rank)
		}
		if !slices.Contains(units, u) {
			units = append(units, u)
		}
	}
	return lane, units
}

// endRung decides what the present rung found, and goes to the next.
func (l *Ladder) endRung() {
	g := l.rungs[0]
	failed := l.report.failed
	l.report.summarize(g)
	if g.kind == KindLoad && l.mayUseCPU && l.withoutNCCL == len(l.ranks) {
		l.useCPUs()
		return
	}
	switch {
	case g.inLanes():
		for i, rounds := range l.local {
			b := judgePairs(rounds)
			for _, u := range b.slow {
				l.report.markSlowRank(l.lanes[i][u], g.name)
			}
			if b.failed {
				l.report.failPairs(g.name, b, func(u int) subject { return l.rankSubject(l.lanes[i][u]) }, failed)
			}
		}
	case g.paired:
		b := judgePairs(l.played)
		l.report.measureNodes(l.played, g, l.last)
		if g.of == unitFirst {
			l.report.comparePorts()
		}
		for _, u := range b.slow {
			l.report.markSlowNode(u, g.name)
		}
		if b.failed {
			l.report.failPairs(g.name, b, l.nodeSubject, failed)
		}
	case len(failed) > 0:
		l.report.failGroups(g, failed, l)
	case g.kind == KindLoad && l.compute == ComputeGPU:
		l.report.compareGPUs()
	}
	l.rungs, l.played, l.lanes, l.local, l.report.failed = l.rungs[1:], nil, nil, nil, nil
	if l.report.Failure != nil {
		for _, left := range l.rungs {
			l.report.NotPlayed = append(l.report.NotPlayed, left.name)
		}
	}
}

// useCPUs begins anew on CPUs: a job whose programs do not use NCCL may have none.
func (l *Ladder) useCPUs() {
	again := NewLadder(l.ranks, l.scope, ComputeCPU)
	again.step = l.step
	again.warn("no rank finds NCCL (GORUN_NCCL_LIB names its file): the GPUs are not tested")
	*l = *again
}

// subject is a rank or a node that a verdict names.
type subject struct {
	text  string
	id    int // its number: a rank's or a node's
	nodes []int
	ranks []int
}

func (l *Ladder) rankSubject(rank int) subject {
	r := l.ranks[rank]
	return subject{r.text(), rank, []int{r.Node}, []int{rank}}
}

func (l *Ladder) nodeSubject(node int) subject {
	return subject{fmt.Sprintf("node %d (%s)", node, l.ranks[l.nodes[node][0]].Host), node, []int{node}, l.nodes[node]}
}

// pick returns the elements at the indices.
func pick(from, indices []int) []int {
	var to []int
	for _, i := range indices {
		to = append(to, from[i])
	}
	return to
}

// join joins the texts of subjects: a, b and c.
func join(texts []string) string {
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	return strings.Join(texts[:len(texts)-1], ", ") + " and " + texts[len(texts)-1]
}
