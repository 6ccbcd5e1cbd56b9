package launch

import (
	"context"
	"strings"

	"github.com/gorun/gorun/launch/diagnose"
	"github.com/gorun/gorun/rendezvous"
)

// maxWitnesses of one node: what explains a failure is mostly said by all ranks
// that it concerns.
const maxWitnesses = 2

// witnesses are workers that were stopped, not failed, but had written what
// explains the failure of another one: two ranks share a GPU, say, one of them
// ends because its peers closed their connections, and NCCL's warning stands in
// the output of a third. words is what each had written before it was stopped:
// what a worker says when it is told to end explains nothing.
func (w *workers) witnesses(words map[*worker][]string) []rendezvous.Cause {
	w.mu.Lock()
	list := w.list
	w.mu.Unlock()
	var out []rendezvous.Cause
	for _, wk := range list {
		tail := words[wk]
		if wk.cause != nil || len(tail) == 0 || len(out) == maxWitnesses {
			continue
		}
		c := w.cause(rendezvous.KindWitness, wk)
		c.Tail, c.Consequence = tail, true
		s := diagnose.NewScanner()
		// Neither the reader nor this context fails.
		_ = s.Read(context.Background(), lastWords(&c), strings.NewReader(strings.Join(tail, "\n")+"\n"))
		if found := s.Findings(); len(found) > 0 && found[0].Severity == diagnose.SeverityCause {
			out = append(out, c)
		}
	}
	return out
}

// words are the ends of what the workers have written; to be called with mu held.
func (w *workers) words() map[*worker][]string {
	out := make(map[*worker][]string, len(w.list))
	for _, wk := range w.list {
		out[wk] = wk.out.Tail()
	}
	return out
}

// lastWords is the end of a worker's standard error as a log.
func lastWords(c *rendezvous.Cause) diagnose.Log {
	return diagnose.Log{Name: "stderr", Rank: c.Rank, Local: c.LocalRank, Host: c.Host, Tail: true}
}
