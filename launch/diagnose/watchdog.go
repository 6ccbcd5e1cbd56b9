package diagnose

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// wait is the collective in which a rank's watchdog found the rank.
type wait struct {
	group string // the process group, as torch names it; "": unknown
	seq   int    // SeqNum; -1: unknown
	op    string
	numel int
	first *event
}

var (
	seqField   = lazily(`SeqNum=(\d+)`)
	opField    = lazily(`OpType=(\w+)`)
	numelField = lazily(`NumelIn=(\d+)`)
	workField  = lazily(`detected by watchdog at work: (\d+)`)
	groupField = lazily(`\[PG (?:ID )?([^\s\]]+)`)
	rankField  = lazily(`Rank (\d+)\]`)
)

// noteWatchdog reads a line of torch's watchdogs.
func (s *Scanner) noteWatchdog(l *line) {
	rank := l.rank
	if rank < 0 {
		rank = number(rankField(), l.raw)
	}
	if rank < 0 || len(s.job.watch) >= maxFacts {
		return
	}
	s.job.printers.ranks[rank] = struct{}{}
	old, known := s.job.watch[rank]
	pg := ""
	if m := groupField().FindSubmatch(l.raw); m != nil {
		pg = string(m[1])
	}
	if at := number(workField(), l.raw); at >= 0 {
		if known && old.seq == at {
			old.group = pg
			s.job.watch[rank] = old
		}
		return
	}
	w := wait{group: pg, seq: number(seqField(), l.raw), numel: number(numelField(), l.raw), first: s.event(s.m.byKey["74"], l)}
	if m := opField().FindSubmatch(l.raw); m != nil {
		w.op = string(m[1])
	}
	if s.job.watching == nil || before(w.first, s.job.watching) {
		s.job.watching = w.first
	}
	if !known || w.seq >= 0 && w.seq < old.seq {
		if known && w.group == "" {
			w.group = old.group
		}
		s.job.watch[rank] = w
	}
}

// waits compares the watchdogs of all ranks and returns the event that they
// show: ranks in different collectives, a silent rank, or all in one
// collective. It returns nil if they show nothing.
func (s *Scanner) waits() *event {
	j := &s.job
	if len(j.watch) == 0 {
		return nil
	}
	waiting := slices.Sorted(maps.Keys(j.watch))
	if odd, say := j.desync(); len(odd) > 0 {
		return s.derived(rowDesync, odd, say)
	}
	w := j.watch[waiting[0]]
	where := strings.TrimSpace(fmt.Sprintf("%s %s", w.op, seqText(w.seq)))
	if where == "" {
		where = "a collective"
	}
	var missing, elsewhere []int
	for r := range s.size() {
		if _, ok := j.watch[r]; ok {
			continue
		}
		if _, ok := j.printers.ranks[r]; ok {
			missing = append(missing, r)
		} else {
			elsewhere = append(elsewhere, r)
		}
	}
	here := fmt.Sprintf("%s in %s", ranksWait(waiting), where)
	if len(missing) == 0 {
		missing = elsewhere
	}
	switch {
	case len(missing) > 0:
		return s.derived(rowMissing, missing, fmt.Sprintf("%s; %s reported no time-out", here, rankList(missing)))
	case len(waiting) == 1:
		return nil // of an unknown number of ranks
	}
	e := s.derived(rowStuck, nil, here)
	e.rank = -1
	return e
}

// desync returns the ranks that are behind the others, and a text that lists
// all. If all have one SeqNum, the smallest group counts as behind. Only ranks
// of one process group can be compared, so it reads the largest.
func (j *job) desync() (odd []int, say string) {
	groups := map[string][]int{}
	for rank, w := range j.watch {
		groups[w.group] = append(groups[w.group], rank)
	}
	var ranks []int
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		if g := groups[name]; len(g) > len(ranks) {
			ranks = g
		}
	}
	slices.Sort(ranks)
	type where struct {
		seq   int
		op    string
		numel int
	}
	at := map[where][]int{}
	for _, r := range ranks {
		w := j.watch[r]
		k := where{w.seq, w.op, w.numel}
		if !strings.HasPrefix(strings.TrimPrefix(w.op, "_"), "ALLREDUCE") && w.op != "BROADCAST" && w.op != "REDUCE" {
			k.numel = 0 // in other collectives parts may have different sizes
		}
		at[k] = append(at[k], r)
	}
	if len(at) < 2 {
		return nil, ""
	}
	places := slices.SortedFunc(maps.Keys(at), func(a, b where) int { return at[a][0] - at[b][0] })
	lag := slices.MinFunc(places, func(a, b where) int {
		if a.seq != b.seq {
			return a.seq - b.seq
		}
		return len(at[a]) - len(at[b])
	})
	var parts []string
	for _, p := range places {
		part := fmt.Sprintf("%s in %s %s", ranksWait(at[p]), p.op, seqText(p.seq))
		if p.numel > 0 {
			part += fmt.Sprintf(" of %d elements", p.numel)
		}
		parts = append(parts, part)
	}
	if len(parts) > 8 {
		parts = append(parts[:8], "…")
	}
	return at[lag], strings.Join(parts, ", ")
}

// derived returns an event that several lines show together. Its place is that
// of the first watchdog, or of the rank to blame.
func (s *Scanner) derived(key string, blame []int, say string) *event {
	e := *s.job.watching
	e.row = s.m.byKey[key]
	e.class = e.row.Class
	e.text, e.named, e.pid = say, blame, 0
	e.host = ""
	if len(blame) > 0 {
		e.rank = blame[0]
		if w, ok := s.job.watch[e.rank]; ok {
			e.host, e.log, e.number = w.first.host, w.first.log, w.first.number
		}
	}
	return &e
}

// size returns how many ranks the job has, as far as the logs say.
func (s *Scanner) size() int {
	n := s.job.world
	for r := range s.job.printers.ranks {
		n = max(n, r+1)
	}
	return min(n, maxFacts)
}

func seqText(seq int) string {
	if seq < 0 {
		return ""
	}
	return fmt.Sprintf("SeqNum=%d", seq)
}

func ranksWait(ranks []int) string {
	if len(ranks) == 1 {
		return rankList(ranks) + " waits"
	}
	return rankList(ranks) + " wait"
}

// rankList returns "rank 3" or "ranks 0-2, 5".
func rankList(ranks []int) string {
	var parts []string
	for i := 0; i < len(ranks); {
		end := i
		for end+1 < len(ranks) && ranks[end+1] == ranks[end]+1 {
			end++
		}
		switch end - i {
		case 0:
			parts = append(parts, fmt.Sprint(ranks[i]))
		case 1:
			parts = append(parts, fmt.Sprint(ranks[i]), fmt.Sprint(ranks[end]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", ranks[i], ranks[end]))
		}
		i = end + 1
	}
	if len(parts) > 12 {
		parts = append(parts[:12], "…")
	}
	if len(ranks) == 1 {
		return "rank " + parts[0]
	}
	return "ranks " + strings.Join(parts, ", ")
}
