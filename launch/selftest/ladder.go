package selftest

import (
	"fmt"
	"slices"
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

// Plan is one step of the ladder: groups of ranks that test at the same time.
type Plan struct {
	Step     int           `json:"step"` // from 0
	Rung     string        `json:"rung"`
	Kind     Kind          `json:"kind"`
	Sizes    []int         `json:"sizes,omitempty"` // bytes of a rank's buffer; of an all-to-all, for each pair
	Groups   []Group       `json:"groups,omitempty"`
	Deadline time.Duration `json:"deadline"` // of each process
}

// Group is the ranks of one test, and the node of each.
type Group struct {
	Ranks []int `json:"ranks"`
	Nodes []int `json:"nodes"`
}

// End says how the process of a rank ended.
type End string

// The ends, the most telling first: a process that crashed explains why its partners
// lost their connection.
const (
	EndCrashed End = "crashed"
	EndWrong   End = "wrong values"
	EndFailed  End = "failed"
	EndStuck   End = "did not end by itself" // after its deadline
	EndLate    End = "not done in time"
	EndLost    End = "lost a partner"
	EndPassed  End = "passed"
)

// severity orders ends, the most telling first.
func (e End) severity() int {
	return slices.Index([]End{EndCrashed, EndWrong, EndFailed, EndStuck, EndLate, EndLost}, e)
}

// Result is what the process of one rank found.
type Result struct {
	Rank   int      `json:"rank"`
	End    End      `json:"end"`
	Text   string   `json:"text,omitempty"` // why it did not pass
	Timing []Timing `json:"timing,omitempty"`
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
	sizes    []int
	quick    []int // sizes of ScopeQuick
	deadline time.Duration
	of       unit
	paired   bool // tests pairs of units, else all ranks of each unit
	in       []Scope
}

// unit is what a rung tests: single ranks, the ranks of a node, nodes, all.
type unit int

const (
	unitRank  unit = iota // ranks; in pairs: of the same node
	unitNode              // all ranks of each node; in pairs: all ranks of two nodes
	unitFirst             // the first rank of each node
	unitWorld             // all ranks
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// ladder returns the rungs, the smallest first (reference: DLRover's node check, Azure
// NHC and Meta's gcm test in this order: load, alone, node, pairs of nodes, all).
func ladder() []rung {
	full, quick, links := ScopeFull, ScopeQuick, ScopeLinks
	return []rung{
		{name: "load", kind: KindLoad, deadline: 20 * time.Second, of: unitRank, in: []Scope{full, quick, links}},
		{name: "alone", kind: KindCopy, sizes: []int{64 * mib}, deadline: 20 * time.Second, of: unitRank, in: []Scope{full}},
		{name: "pairs in a node", kind: KindAllReduce, sizes: []int{8, mib}, deadline: 20 * time.Second, of: unitRank, paired: true, in: []Scope{full}},
		{name: "node", kind: KindAllReduce, sizes: []int{8, 16 * mib}, quick: []int{8, mib}, deadline: 30 * time.Second, of: unitNode, in: []Scope{full, quick}},
		{name: "pairs of nodes", kind: KindAllReduce, sizes: []int{8, 4 * mib}, deadline: 30 * time.Second, of: unitFirst, paired: true, in: []Scope{full, links}},
		{name: "pairs of nodes, all ranks", kind: KindAllReduce, sizes: []int{8, 4 * mib}, deadline: 30 * time.Second, of: unitNode, paired: true, in: []Scope{full}},
		{name: "ring", kind: KindRing, sizes: []int{8, mib}, quick: []int{64 * kib}, deadline: 30 * time.Second, of: unitWorld, in: []Scope{full, quick}},
		{name: "all-reduce", kind: KindAllReduce, sizes: []int{8, mib, 16 * mib}, quick: []int{8, mib}, deadline: time.Minute, of: unitWorld, in: []Scope{full, quick}},
		{name: "all-to-all", kind: KindAllToAll, sizes: []int{64 * kib, mib}, deadline: time.Minute, of: unitWorld, in: []Scope{full}},
	}
}

// maxExchange bounds what a rank sends in an all-to-all, so that a job of thousands of
// ranks has the memory and the time for it.
const maxExchange = 64 * mib

// sizesFor returns the sizes of the rung for these groups.
func (g *rung) sizesFor(groups [][]int) []int {
	if g.kind != KindAllToAll {
		return g.sizes
	}
	largest := 1
	for _, ranks := range groups {
		largest = max(largest, len(ranks))
	}
	var sizes []int
	for _, size := range g.sizes {
		sizes = append(sizes, min(size, max(8, maxExchange/largest&^7)))
	}
	return slices.Compact(sizes)
}

// Ladder decides what is tested next, and in the end who is to blame.
type Ladder struct {
	ranks  []Rank // by rank
	nodes  [][]int
	scope  Scope
	rungs  []rung // left to play, the present one first
	step   int
	played [][]pairResult // rounds of the present rung, of nodes
	local  [][][]pairResult
	report Report
	last   Plan
}

// NewLadder returns the ladder for the ranks of a job, in the order of their numbers.
func NewLadder(ranks []Rank, scope Scope) *Ladder {
	l := &Ladder{ranks: ranks, scope: scope}
	for _, r := range ranks {
		for r.Node >= len(l.nodes) {
			l.nodes = append(l.nodes, nil)
		}
		l.nodes[r.Node] = append(l.nodes[r.Node], r.Rank)
	}
	for _, g := range ladder() {
		if slices.Contains(g.in, scope) {
			if scope == ScopeQuick && g.quick != nil {
				g.sizes = g.quick
			}
			l.rungs = append(l.rungs, g)
		}
	}
	l.report = newReport(ranks, l.nodes)
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
			l.last = Plan{l.step, g.name, g.kind, g.sizesFor(groups), l.withNodes(groups), g.deadline}
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
	if g.of != unitRank {
		return l.nodePairs(g)
	}
	var groups [][]int
	for i, ranks := range l.nodes {
		if l.local == nil {
			l.local = make([][][]pairResult, len(l.nodes))
		}
		for _, pair := range nextPairs(len(ranks), l.local[i]) {
			groups = append(groups, pick(ranks, pair))
		}
	}
	return groups
}

// nodePairs returns the groups of the next round of a rung that pairs nodes.
func (l *Ladder) nodePairs(g rung) [][]int {
	next := nextPairs(len(l.nodes), l.played)
	if l.scope == ScopeLinks {
		next = nil
		if all := allPairs(len(l.nodes)); len(l.nodes) > 1 && len(l.played) < len(all) {
			next = all[len(l.played)]
		}
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

// take records the results of the last plan.
func (l *Ladder) take(results []Result) {
	g, byRank := l.rungs[0], make(map[int]Result)
	for _, r := range results {
		byRank[r.Rank] = r
	}
	var round []pairResult
	rounds := make([][]pairResult, len(l.nodes))
	for _, tested := range l.last.Groups {
		group := tested.Ranks
		one := l.judge(group, byRank)
		l.report.add(l.last, group, one)
		units := l.unitsOf(g, group)
		p := pairResult{units: units, ok: one.End == EndPassed, seconds: one.seconds()}
		round = append(round, p)
		if g.paired && g.of == unitRank {
			node := l.ranks[group[0]].Node
			rounds[node] = append(rounds[node], p)
		}
		if p.ok {
			continue
		}
		l.report.failed = append(l.report.failed, failedGroup{group, one})
	}
	l.played = append(l.played, round)
	if g.paired && g.of == unitRank {
		for i, r := range rounds {
			if r != nil {
				l.local[i] = append(l.local[i], r)
			}
		}
	}
}

// judge returns the result of a group: the most telling of its ranks' results. A rank
// without a result is late.
func (l *Ladder) judge(group []int, byRank map[int]Result) Result {
	worst := Result{End: EndPassed}
	for _, rank := range group {
		r, ok := byRank[rank]
		if !ok {
			r = Result{Rank: rank, End: EndStuck, Text: "its tester did not answer"}
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
	return worst
}

// seconds returns the time of the largest call.
func (r *Result) seconds() float64 {
	if len(r.Timing) == 0 {
		return 0
	}
	return r.Timing[len(r.Timing)-1].Seconds
}

// unitsOf returns the units of a group: local positions of ranks in their node for pairs
// of ranks, else nodes.
func (l *Ladder) unitsOf(g rung, group []int) []int {
	var units []int
	for _, rank := range group {
		u := l.ranks[rank].Node
		if g.paired && g.of == unitRank {
			u = slices.Index(l.nodes[u], rank)
		}
		if !slices.Contains(units, u) {
			units = append(units, u)
		}
	}
	return units
}

// endRung decides what the present rung found, and goes to the next.
func (l *Ladder) endRung() {
	g := l.rungs[0]
	failed := l.report.failed
	switch {
	case g.paired && g.of == unitRank:
		for i, rounds := range l.local {
			b := judgePairs(rounds)
			for _, u := range b.slow {
				l.report.markSlowRank(l.nodes[i][u], g.name)
			}
			if b.failed {
				l.report.failPairs(g.name, b, func(u int) subject { return l.rankSubject(l.nodes[i][u]) }, failed)
			}
		}
	case g.paired:
		b := judgePairs(l.played)
		for _, u := range b.slow {
			l.report.markSlowNode(u, g.name)
		}
		if b.failed {
			l.report.failPairs(g.name, b, l.nodeSubject, failed)
		}
	case len(failed) > 0:
		l.report.failGroups(g, failed, l)
	}
	l.rungs, l.played, l.local, l.report.failed = l.rungs[1:], nil, nil, nil
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
	text := fmt.Sprintf("rank %d (local rank %d) on %s", r.Rank, r.Local, r.Host)
	if r.Device != "" {
		text = fmt.Sprintf("rank %d (local rank %d, %s) on %s", r.Rank, r.Local, r.Device, r.Host)
	}
	return subject{text, rank, []int{r.Node}, []int{rank}}
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
