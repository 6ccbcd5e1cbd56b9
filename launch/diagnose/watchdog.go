package diagnose

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
)

// collectiveTimeout is the collective in which a rank's watchdog timed out.
type collectiveTimeout struct {
	group string // the process group, as torch names it; "": unknown
	seq   int    // SeqNum; -1: unknown
	op    string
	numel int
	event *event
}

var (
	seqField   = match.Lazy(`SeqNum=(\d+)`)
	opField    = match.Lazy(`OpType=(\w+)`)
	numelField = match.Lazy(`NumelIn=(\d+)`)
	groupField = match.Lazy(`\[PG (?:ID )?([^\s\]]+)`)
	rankField  = match.Lazy(`Rank (\d+)\]`)
	// foldedField matches what Ray writes behind a line that stands for several ranks.
	foldedField = match.Lazy(`\[repeated (\d{1,6})x across cluster\]`)
)

// readWatchdog reads a line of torch's watchdogs.
func (s *Scanner) readWatchdog(l *line, f *match.Fields) {
	rank := l.Rank
	if rank < 0 {
		rank = number(rankField(), l.raw)
	}
	if rank < 0 || len(s.job.timeouts) >= maxEntries {
		return
	}
	s.job.writers.ranks[rank] = struct{}{}
	if f.Text("failed") != "" {
		s.job.stopped[rank] = struct{}{}
		return
	}
	s.job.folded += max(0, number(foldedField(), l.raw))
	old, known := s.job.timeouts[rank]
	pg := ""
	if m := groupField().FindSubmatch(l.raw); m != nil {
		pg = string(m[1])
	}
	if at := f.Number("work"); at >= 0 {
		if known && old.seq == at {
			old.group = pg
			s.job.timeouts[rank] = old
		}
		return
	}
	w := collectiveTimeout{group: pg, seq: number(seqField(), l.raw), numel: number(numelField(), l.raw), event: s.newEvent(s.matcher.byKey[catalogue.RowTimeout], l)}
	if m := opField().FindSubmatch(l.raw); m != nil {
		w.op = string(m[1])
	}
	if s.job.firstTimeout == nil || before(w.event, s.job.firstTimeout) {
		s.job.firstTimeout = w.event
		if w.event.excerpt == nil {
			w.event.excerpt = s.unranked()
		}
	}
	if !known || w.seq >= 0 && w.seq < old.seq {
		if known && w.group == "" {
			w.group = old.group
		}
		s.job.timeouts[rank] = w
	}
}

// queued is the last collective that a rank says it queued, and its process group.
type queued struct {
	group string
	seq   int
}

// maxLag is how far a rank may be behind, where the group of the time-out is unknown.
const maxLag = 64

// readQueued reads how far a rank came that was told of a time-out of another rank.
func (s *Scanner) readQueued(l *line, f *match.Fields) {
	rank := max(l.Rank, number(rankField(), l.raw))
	if m := groupField().FindSubmatch(l.raw); m != nil && rank >= 0 && len(s.job.queued) < maxEntries {
		s.job.queued[rank] = queued{string(m[1]), f.Number("work")}
	}
}

// lagging returns the ranks that are furthest behind the collective of a time-out, ascending,
// and a text about them, nil if no rank says that it is behind.
func (j *job) lagging(w collectiveTimeout) (ranks []int, text string) {
	least := w.seq
	for _, r := range slices.Sorted(maps.Keys(j.queued)) {
		q := j.queued[r]
		_, waits := j.timeouts[r]
		isOfGroup := q.group == w.group || w.group == "" && w.seq-q.seq <= maxLag
		switch {
		case waits || !isOfGroup || q.seq > least || q.seq == w.seq:
		case q.seq < least:
			least, ranks = q.seq, []int{r}
		default:
			ranks = append(ranks, r)
		}
	}
	if ranks == nil {
		return nil, ""
	}
	return ranks, fmt.Sprintf("%s had queued %d collectives only", rankList(ranks), least)
}

// unranked returns the last lines before the present one that do not say which rank wrote
// them. The rank for which the others wait may have.
func (s *Scanner) unranked() *excerpt {
	x := &excerpt{isOver: true}
	for h, text := range s.linesBefore(3 * besideSpan) {
		if h.Rank < 0 && h.Local < 0 && h.Task < 0 && len(x.before) < maxBefore/2 && !isRule(text) {
			x.before = append(x.before, match.PlainText(text))
		}
	}
	slices.Reverse(x.before)
	return x
}

// timeoutEvent compares the time-outs of all ranks. It returns the event that they
// show: ranks in different collectives, a rank without a time-out, or all ranks in
// one collective. It returns nil if they show none of these.
func (s *Scanner) timeoutEvent() *event {
	j := &s.job
	if len(j.timeouts) == 0 {
		return nil
	}
	waiting := slices.Sorted(maps.Keys(j.timeouts))
	if behind, text := j.findDesync(); len(behind) > 0 {
		return s.watchdogEvent(catalogue.RowDesync, behind, text)
	}
	w := j.timeouts[waiting[0]]
	collective := strings.TrimSpace(fmt.Sprintf("%s %s", w.op, seqText(w.seq)))
	if collective == "" {
		collective = "a collective"
	}
	if lagging, text := j.lagging(w); lagging != nil {
		return s.watchdogEvent(catalogue.RowMissing, lagging, fmt.Sprintf("%s in %s; %s", waitText(waiting), collective, text))
	}
	var missing, unseen []int // ranks without a time-out: that print, and that do not
	for r := range s.worldSize() {
		if _, ok := j.timeouts[r]; ok {
			continue
		}
		if _, ok := j.stopped[r]; ok {
			continue
		}
		_, prints := j.writers.ranks[r]
		if _, ok := j.writers.locals[r]; prints || ok && s.hasOneNode() {
			missing = append(missing, r)
		} else {
			unseen = append(unseen, r)
		}
	}
	here := fmt.Sprintf("%s in %s", waitText(waiting), collective)
	if len(missing) == 0 {
		missing = j.gaps(unseen)
	}
	switch {
	case j.folded > 0 && len(missing)+len(unseen) <= j.folded:
		e := s.watchdogEvent(catalogue.RowMissing, nil, here+"; Ray left out the same lines of other ranks: read their output")
		e.rank = -1
		return e
	case len(missing) > 0:
		e := s.watchdogEvent(catalogue.RowMissing, missing, fmt.Sprintf("%s; %s reported no time-out", here, rankList(missing)))
		if _, prints := j.writers.ranks[missing[0]]; !prints {
			e.excerpt = j.firstTimeout.excerpt
		}
		return e
	case len(unseen) > 0: // the log does not cover them
		e := s.watchdogEvent(catalogue.RowMissing, nil, fmt.Sprintf("%s; no line here begins with %s: read what those printed last", here, rankList(unseen)))
		e.rank, e.excerpt = -1, j.firstTimeout.excerpt
		return e
	case len(waiting) == 1:
		return nil // of an unknown number of ranks
	}
	e := s.watchdogEvent(catalogue.RowAllWait, nil, here)
	e.rank = -1
	return e
}

// gaps returns the ranks of unseen that the logs cover. A log covers a rank if it has lines of
// a lower and of a higher rank, or the lines of its agent. Ranks above all those of a log
// may run on another node.
func (j *job) gaps(unseen []int) []int {
	low, high := maxEntries, -1
	for r := range j.writers.ranks {
		low, high = min(low, r), max(high, r)
	}
	spans := append(slices.Clone(j.writers.spans), span{low, high + 1})
	isUncovered := func(r int) bool {
		return !slices.ContainsFunc(spans, func(s span) bool { return s.first <= r && r < s.end })
	}
	return slices.DeleteFunc(slices.Clone(unseen), isUncovered)
}

// findDesync returns the ranks that are behind the others, and a text that lists
// all ranks. If all have one SeqNum, the fewest ranks in one collective count as
// behind. It compares the ranks of the largest process group only.
func (j *job) findDesync() (behind []int, text string) {
	groups := map[string][]int{}
	for rank, w := range j.timeouts {
		groups[w.group] = append(groups[w.group], rank)
	}
	var ranks []int
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		if g := groups[name]; len(g) > len(ranks) {
			ranks = g
		}
	}
	slices.Sort(ranks)
	type position struct {
		seq   int
		op    string
		numel int
	}
	at := map[position][]int{}
	for _, r := range ranks {
		w := j.timeouts[r]
		k := position{w.seq, w.op, w.numel}
		if !strings.HasPrefix(strings.TrimPrefix(w.op, "_"), "ALLREDUCE") && w.op != "BROADCAST" && w.op != "REDUCE" {
			k.numel = 0 // in other collectives parts may have different sizes
		}
		at[k] = append(at[k], r)
	}
	if len(at) < 2 {
		return nil, ""
	}
	positions := slices.SortedFunc(maps.Keys(at), func(a, b position) int { return at[a][0] - at[b][0] })
	lag := slices.MinFunc(positions, func(a, b position) int {
		if a.seq != b.seq {
			return a.seq - b.seq
		}
		return len(at[a]) - len(at[b])
	})
	var parts []string
	for _, p := range positions {
		part := fmt.Sprintf("%s in %s %s", waitText(at[p]), p.op, seqText(p.seq))
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

// watchdogEvent returns an event that several time-outs show together. Its line is
// that of the first rank to blame, or else the first time-out.
func (s *Scanner) watchdogEvent(key string, ranks []int, text string) *event {
	e := *s.job.firstTimeout
	e.row = s.matcher.byKey[key]
	e.kind = e.row.Kind
	e.text, e.origin, e.derived, e.excerpt = text, unknownOrigin(), true, nil
	e.named = ranks
	if len(ranks) > 0 {
		e.rank = ranks[0]
		if w, ok := s.job.timeouts[e.rank]; ok {
			e.host, e.log, e.number = w.event.host, w.event.log, w.event.number
		}
	}
	return &e
}

// worldSize returns the number of ranks, as far as the logs show it.
func (s *Scanner) worldSize() int {
	n := s.job.world
	for r := range s.job.writers.ranks {
		n = max(n, r+1)
	}
	for _, s := range s.job.writers.spans {
		n = max(n, s.end)
	}
	return min(n, maxEntries)
}

func seqText(seq int) string {
	if seq < 0 {
		return ""
	}
	return fmt.Sprintf("SeqNum=%d", seq)
}

func waitText(ranks []int) string {
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
