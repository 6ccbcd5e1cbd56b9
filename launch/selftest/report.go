package selftest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Report is what a self-test found.
type Report struct {
	OK      bool         `json:"ok"`
	Compute Compute      `json:"compute"` // cpu or gpu
	Nodes   []NodeReport `json:"nodes"`
	Rungs   []RungReport `json:"rungs"`
	Failure *Failure     `json:"failure,omitempty"`
	// NotPlayed is the rungs above the one that failed.
	NotPlayed []string `json:"not_played,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`

	Ranks []Rank `json:"ranks"`

	failed []failedGroup // of the present rung
}

// State is what the self-test found of a node.
type State string

// The states of a node, as far as the ladder went: the rungs above a failure are not played.
const (
	StateGood State = "good"
	StateSlow State = "slow"
	StateBad  State = "bad"
	// StateSuspect is the state of a node of a pair that failed, or of a rung at which
	// no node can be named.
	StateSuspect State = "suspect"
)

// isWorse reports whether s is worse than another state.
func (s State) isWorse(than State) bool {
	order := []State{StateGood, StateSlow, StateSuspect, StateBad}
	return slices.Index(order, s) > slices.Index(order, than)
}

// NodeReport is what the self-test found of one node.
type NodeReport struct {
	Node  int    `json:"node"`
	Host  string `json:"host"`
	Ranks []int  `json:"ranks"`
	State State  `json:"state"`
	// Pair is the bus bandwidth with the best partner, and PairTimes how many times as long
	// as that of the median node the call took; 0: no pairs of nodes were tested.
	Pair      float64 `json:"pair_gb_s,omitempty"`
	PairTimes float64 `json:"pair_times_median,omitempty"`
	// Slow says why the node is slow.
	Slow string `json:"slow,omitempty"`
}

// RungReport is what one rung measured.
type RungReport struct {
	Rung   string `json:"rung"`
	Groups int    `json:"groups"`
	Ranks  int    `json:"ranks"` // of the largest group
	Sizes  []Size `json:"sizes,omitempty"`
}

// Size is the time of one size of a rung.
type Size struct {
	Bytes  int     `json:"bytes"`
	Median float64 `json:"seconds"`         // over the groups; of a group the slowest rank's
	Worst  float64 `json:"slowest_seconds"` // of all groups
	Slow   []int   `json:"slowest_ranks"`   // the group that took that long
	BusBW  float64 `json:"bus_gb_s"`        // of the median, as nccl-tests counts it

	times []float64
}

// Failure is the first fault that the ladder met.
type Failure struct {
	Rung  string  `json:"rung"`
	Text  string  `json:"text"` // what failed, where and why
	Fix   string  `json:"fix"`
	Nodes []int   `json:"nodes,omitempty"` // to blame
	Ranks []int   `json:"ranks,omitempty"`
	Pairs [][]int `json:"pairs,omitempty"` // of nodes, or of ranks within one node
}

func (f *Failure) Error() string {
	return fmt.Sprintf("the self-test failed at the rung %q: %s", f.Rung, f.Text)
}

// blame adds nodes and ranks to those to blame, each once.
func (f *Failure) blame(nodes, ranks []int) {
	f.Nodes, f.Ranks = union(f.Nodes, nodes), union(f.Ranks, ranks)
}

// union adds to numbers what they do not have.
func union(numbers, more []int) []int {
	for _, n := range more {
		if !slices.Contains(numbers, n) {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// failedGroup is a group that did not pass, its most telling result, and the results of
// ranks that failed of their own doing.
type failedGroup struct {
	ranks  []int
	result Result
	owners []Result
}

func newReport(ranks []Rank, nodes [][]int, compute Compute) Report {
	r := Report{Ranks: ranks, Compute: compute}
	for i, of := range nodes {
		r.Nodes = append(r.Nodes, NodeReport{Node: i, Host: ranks[of[0]].Host, Ranks: of, State: StateGood})
	}
	r.OK = true
	return r
}

// add counts the times of a group.
func (r *Report) add(p Plan, group []int, result Result) {
	r.compareRate(p, group, result)
	i := slices.IndexFunc(r.Rungs, func(g RungReport) bool { return g.Rung == p.Rung })
	if i < 0 {
		i = len(r.Rungs)
		r.Rungs = append(r.Rungs, RungReport{Rung: p.Rung})
	}
	g := &r.Rungs[i]
	g.Groups++
	g.Ranks = max(g.Ranks, len(group))
	for _, t := range result.Timing {
		j := slices.IndexFunc(g.Sizes, func(s Size) bool { return s.Bytes == t.Bytes })
		if j < 0 {
			j = len(g.Sizes)
			g.Sizes = append(g.Sizes, Size{Bytes: t.Bytes})
		}
		s := &g.Sizes[j]
		s.times = append(s.times, t.Seconds)
		if t.Seconds >= s.Worst {
			s.Worst, s.Slow = t.Seconds, group
		}
	}
}

// summarize computes the medians of a rung whose rounds are over.
func (r *Report) summarize(g rung) {
	for i := range r.Rungs {
		if r.Rungs[i].Rung != g.name {
			continue
		}
		for j := range r.Rungs[i].Sizes {
			s := &r.Rungs[i].Sizes[j]
			s.Median = median(s.times)
			s.BusBW = busBandwidth(g.kind, r.Rungs[i].Ranks, s.Bytes, s.Median)
		}
	}
}

// median sorts the times and returns the lower of the two in the middle, 0 of none.
func median(times []float64) float64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[(len(times)-1)/2]
}

// measureNodes notes how fast each node is with its best partner.
func (r *Report) measureNodes(rounds [][]pairResult, g rung, p Plan) {
	best := make(map[int]float64)
	for _, pair := range slices.Concat(rounds...) {
		if !pair.ok || pair.seconds <= 0 {
			continue
		}
		for _, u := range pair.units {
			if best[u] == 0 || pair.seconds < best[u] {
				best[u] = pair.seconds
			}
		}
	}
	usual := median(slices.Collect(maps.Values(best)))
	for node, seconds := range best {
		ranks := 2
		if g.of == unitNode {
			ranks = len(p.Groups[0].Ranks)
		}
		n := &r.Nodes[node]
		n.Pair = busBandwidth(g.kind, ranks, p.Sizes[len(p.Sizes)-1], seconds)
		n.PairTimes = seconds / usual
	}
}

// busBandwidth returns GB/s as nccl-tests counts them (its doc/PERFORMANCE.md): what
// the busiest link carries, whatever the number of ranks.
func busBandwidth(kind Kind, ranks, bytes int, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	rate := float64(bytes) / seconds / 1e9
	switch {
	case kind == KindAllToAll:
		return rate * float64(ranks-1) // bytes are those of a pair
	case kind == KindAllReduce && ranks > 1:
		return rate * 2 * float64(ranks-1) / float64(ranks)
	}
	return rate
}

// markSlowNode and markSlowRank note what took much longer than the others in each round.
func (r *Report) markSlowNode(node int, rung string) {
	r.markSlow(node, slowText(rung))
	r.Warnings = append(r.Warnings, fmt.Sprintf("node %d (%s) is slow: with each partner it took more than %.2f times the median (%s)", node, r.Nodes[node].Host, slowFactor, rung))
}

func (r *Report) markSlowRank(rank int, rung string) {
	of := r.Ranks[rank]
	r.markSlow(of.Node, fmt.Sprintf("rank %d %s", rank, slowText(rung)))
	r.Warnings = append(r.Warnings, fmt.Sprintf("rank %d (local rank %d) on %s is slow: with each partner it took more than %.2f times the median (%s)", rank, of.Local, of.Host, slowFactor, rung))
}

// slowText says in a few words why a node is slow.
func slowText(rung string) string {
	return fmt.Sprintf("over %.2f times the median (%s)", slowFactor, rung)
}

// markSlow marks a node as slow. The first reason stays.
func (r *Report) markSlow(node int, why string) {
	r.mark([]int{node}, StateSlow)
	if r.Nodes[node].Slow == "" {
		r.Nodes[node].Slow = why
	}
}

// mark gives nodes a state that is worse than theirs.
func (r *Report) mark(nodes []int, state State) {
	for _, n := range nodes {
		if state.isWorse(r.Nodes[n].State) {
			r.Nodes[n].State = state
		}
	}
}

// failPairs makes the failure of a rung of pairs.
func (r *Report) failPairs(rung string, b blame, name func(unit int) subject, failed []failedGroup) {
	f := Failure{Rung: rung}
	if r.Failure != nil {
		f = *r.Failure // of another node's ranks
	}
	var lines []string
	for _, u := range b.units {
		s := name(u)
		lines = append(lines, fmt.Sprintf("%s fails with each partner, and they work with others: %s", s.text, r.reason(failed, s.ranks)))
		f.blame(s.nodes, s.ranks)
		r.mark(s.nodes, StateBad)
	}
	for _, pair := range b.pairs {
		groups := groupsOf(pair, name, failed)
		if owners := ownersOf(pair, name, groups); owners != nil {
			for _, one := range owners {
				if !slices.Contains(f.Ranks, one.Rank) { // it failed with another partner too
					lines = append(lines, r.blameRank(&f, one))
				}
			}
			continue
		}
		var texts []string
		var ids, nodes []int
		both := "; each works with others, so it is what connects them"
		for _, u := range pair {
			s := name(u)
			texts, ids = append(texts, s.text), append(ids, s.id)
			nodes = append(nodes, s.nodes...)
			if b.passed[u] == 0 {
				both = ""
			}
		}
		lines = append(lines, fmt.Sprintf("%s fail together%s: %s", join(texts), both, r.reason(groups, nil)))
		f.Pairs = append(f.Pairs, ids)
		r.mark(nodes, StateSuspect)
	}
	if b.common {
		var nodes []int
		for _, g := range failed {
			for _, rank := range g.ranks {
				nodes = append(nodes, r.Ranks[rank].Node)
			}
		}
		r.mark(nodes, StateSuspect)
		lines = append(lines, "most pairs fail, so it is what they share, the network or a setting: "+r.reason(failed, nil))
	}
	if lines = few(lines); f.Text != "" {
		lines = slices.Insert(lines, 0, f.Text)
	}
	f.Text = strings.Join(lines, "; ")
	f.Fix = fixOf(f, true)
	r.Failure, r.OK = &f, false
}

// ownersOf returns the results of the ranks that made the groups of a pair of units fail of
// their own doing, if all are of one unit.
func ownersOf(pair []int, name func(unit int) subject, groups []failedGroup) []Result {
	var owners []Result
	var of []int // units
	for _, unit := range pair {
		ranks := name(unit).ranks
		for _, g := range groups {
			for _, one := range g.owners {
				if slices.Contains(ranks, one.Rank) {
					owners, of = append(owners, one), append(of, unit)
				}
			}
			if g.owners == nil { // it failed for another reason too
				return nil
			}
		}
	}
	if len(slices.Compact(of)) != 1 {
		return nil
	}
	return owners
}

// groupsOf returns the failed groups of these units and no others.
func groupsOf(units []int, name func(unit int) subject, failed []failedGroup) (groups []failedGroup) {
	for _, g := range failed {
		left := slices.Clone(g.ranks)
		missing := false
		for _, unit := range units {
			ranks, had := name(unit).ranks, len(left)
			left = slices.DeleteFunc(left, func(rank int) bool { return slices.Contains(ranks, rank) })
			missing = missing || len(left) == had
		}
		if !missing && len(left) == 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// blameRank adds a rank that failed of its own doing to a failure, and returns the line
// that says so.
func (r *Report) blameRank(f *Failure, one Result) string {
	of := r.Ranks[one.Rank]
	f.blame([]int{of.Node}, []int{one.Rank})
	r.mark([]int{of.Node}, StateBad)
	return fmt.Sprintf("%s: %s", of.text(), one.describe())
}

// failGroups makes the failure of a rung of whole units.
func (r *Report) failGroups(g rung, failed []failedGroup, l *Ladder) {
	f := Failure{Rung: g.name}
	var lines []string
	bad := make(map[int][]failedGroup) // by node
	for _, group := range failed {
		node := r.Ranks[group.ranks[0]].Node
		bad[node] = append(bad[node], group)
	}
	tested := l.testedNodes(g.of)
	switch {
	case g.of == unitWorld:
		lines = r.failWorld(&f, failed[0], l.scope)
	case tested > 1 && 2*len(bad) > tested:
		for node := range bad {
			r.mark([]int{node}, StateSuspect)
		}
		lines = append(lines, fmt.Sprintf("%d of %d nodes fail, so it is what they share, the network or a setting: %s", len(bad), tested, r.reason(failed, nil)))
	default:
		for _, node := range slices.Sorted(maps.Keys(bad)) {
			lines = append(lines, r.failNode(&f, node, bad[node], l)...)
		}
	}
	f.Text = strings.Join(few(lines), "; ")
	f.Fix = fixOf(f, g.of == unitWorld)
	r.Failure, r.OK = &f, false
}

// failNode blames a node for its groups that failed: those of its ranks that failed of
// their own doing, or all of it.
func (r *Report) failNode(f *Failure, node int, groups []failedGroup, l *Ladder) []string {
	var lines []string
	ranks := l.nodes[node]
	for _, g := range groups {
		if len(g.ranks) == 1 && (len(groups) < len(ranks) || len(ranks) == 1) { // tested alone
			lines = append(lines, r.blameRank(f, g.result))
			continue
		}
		for _, one := range g.owners {
			lines = append(lines, r.blameRank(f, one))
		}
	}
	if lines == nil {
		s := l.nodeSubject(node)
		how := "fail together"
		if len(groups) > 1 {
			how = "fail, each by itself"
		}
		lines = append(lines, fmt.Sprintf("the %d ranks of %s %s: %s", len(ranks), s.text, how, r.reason(groups, nil)))
		f.Nodes = append(f.Nodes, node)
		r.mark(s.nodes, StateBad)
	}
	return lines
}

// failWorld blames the ranks that failed of their own doing in the group of all ranks, or
// nobody.
func (r *Report) failWorld(f *Failure, group failedGroup, scope Scope) []string {
	var lines []string
	for _, one := range group.owners {
		lines = append(lines, r.blameRank(f, one))
	}
	if lines != nil {
		return lines
	}
	before := "smaller groups work"
	if scope == ScopeFull {
		before = "the pairs work"
	}
	for n := range r.Nodes {
		r.mark([]int{n}, StateSuspect)
	}
	result := group.result
	return []string{fmt.Sprintf("all %d ranks together fail, although %s; first of all %s: %s", len(group.ranks), before, r.Ranks[result.Rank].text(), result.describe())}
}

// reason returns the most telling reason of failed groups: of those that have one of
// the ranks, if ranks are given.
func (r *Report) reason(failed []failedGroup, ranks []int) string {
	var best *Result
	for i, g := range failed {
		if ranks != nil && !slices.ContainsFunc(g.ranks, func(rank int) bool { return slices.Contains(ranks, rank) }) {
			continue
		}
		if best == nil || g.result.End.severity() < best.End.severity() {
			best = &failed[i].result
		}
	}
	if best == nil {
		return "no result"
	}
	of := r.Ranks[best.Rank]
	return fmt.Sprintf("rank %d on %s %s", best.Rank, of.Host, best.describe())
}

// describe returns how the process of a rank ended.
func (r *Result) describe() string {
	if r.Text == "" {
		return string(r.End)
	}
	return fmt.Sprintf("%s: %s", r.End, r.Text)
}

// fixOf returns what to do. between reports whether the rung tests what is between nodes.
func fixOf(f Failure, between bool) string {
	switch {
	case len(f.Nodes) > 0:
		return "leave the named nodes out of the job, and look there: gorun selftest on that node alone, dmesg, nvidia-smi -q"
	case len(f.Pairs) > 0:
		return "test what connects the named ones: cable, port, switch, ACS or P2P settings of the machine"
	case !between:
		return "look at what all nodes share: the image, its libraries and driver, environment, limits; gorun check compares the nodes"
	}
	return "look at what all nodes share: interface (NCCL_SOCKET_IFNAME, --iface), firewall, MTU; gorun check compares the nodes"
}

// Hosts returns the hosts in one of the states, each once. A host of several nodes has the
// state of the worst.
func (r *Report) Hosts(states ...State) []string {
	worst := make(map[string]State)
	for _, n := range r.Nodes {
		if state, known := worst[n.Host]; !known || n.State.isWorse(state) {
			worst[n.Host] = n.State
		}
	}
	var hosts []string
	for _, n := range r.Nodes {
		if state, left := worst[n.Host]; left && slices.Contains(states, state) {
			hosts = append(hosts, n.Host)
			delete(worst, n.Host)
		}
	}
	return hosts
}
