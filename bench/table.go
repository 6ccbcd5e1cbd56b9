package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gorun/gorun/internal/term"
)

// row is one line of the table: one peer, one number. Times are in ms and
// memory in MiB, as Unit says; null in JSON stands for "never, within the bound".
type row struct {
	Measure string `json:"measure"`
	Case    string `json:"case"`
	Peer    string `json:"peer"`
	Unit    string `json:"unit,omitempty"`
	Median  number `json:"median"`
	Min     number `json:"min"`
	Max     number `json:"max"`
	// Ratio is the median by gorun's of the same run; 0: there is none.
	Ratio   number   `json:"times_gorun"`
	Samples []number `json:"samples"`
	Note    string   `json:"note,omitempty"`
}

// number is a float64 whose infinity JSON can hold, as null.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

func (n number) String() string {
	v := float64(n)
	switch {
	case math.IsInf(v, 1):
		return "never"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// rows turns what the peers did in one scenario into lines: metric by metric, gorun
// first, then the others in their order.
func (sc scenario) rows(each []*turns) []row {
	var metrics []string
	for _, t := range each {
		for _, r := range t.readings {
			if !slices.Contains(metrics, r.metric) {
				metrics = append(metrics, r.metric)
			}
		}
	}
	var all []row
	for _, m := range metrics {
		base := number(0)
		for _, t := range each {
			r, ok := t.row(m)
			if !ok {
				continue
			}
			r.Measure, r.Case = sc.measure, strings.Trim(sc.name+": "+m, ": ")
			if t.peer.name == nameGorun || t.peer.name == nameSrunGorun {
				base = r.Median
			}
			if base > 0 && !math.IsInf(float64(base), 0) {
				r.Ratio = r.Median / base
			}
			all = append(all, r)
		}
	}
	for _, t := range each { // peers without a number still get a line
		if len(t.readings) == 0 {
			all = append(all, row{Measure: sc.measure, Case: sc.name, Peer: t.peer.name, Note: t.why()})
		}
	}
	return all
}

// row sums up one metric of one peer.
func (t *turns) row(metric string) (row, bool) {
	var values []float64
	r := row{Peer: t.peer.name}
	notes := map[string]int{}
	for _, got := range t.readings {
		if got.metric == metric {
			values = append(values, got.value)
			r.Samples = append(r.Samples, number(got.value))
			r.Unit = got.unit
			notes[got.note]++
		}
	}
	if len(values) == 0 {
		return r, false
	}
	slices.Sort(values)
	r.Median, r.Min, r.Max = number(median(values)), number(values[0]), number(values[len(values)-1])
	delete(notes, "")
	words := slices.Sorted(maps.Keys(notes))
	if len(words) > 1 {
		for i, w := range words {
			words[i] = fmt.Sprintf("%s (%d)", w, notes[w])
		}
	}
	if t.failures > 0 {
		words = append(words, fmt.Sprintf("%d failed", t.failures))
	}
	r.Note = strings.Join(words, ", ")
	return r, true
}

// why returns why a peer has no number.
func (t *turns) why() string {
	if t.peer.missing != "" {
		return t.peer.missing
	}
	if t.lastErr != nil {
		return strings.Join(strings.Fields(fmt.Sprintf("failed: %v", t.lastErr)), " ")
	}
	return "did not run"
}

// median returns the median of sorted values; of an even number, the mean of the middle
// two.
func median(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

func printTable(out io.Writer, rows []row) error {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "measure\tcase\tpeer\truns\tmedian\tmin\tmax\tunit\tby gorun's\tnote")
	for i, r := range rows {
		if i > 0 && (rows[i-1].Measure != r.Measure || rows[i-1].Case != r.Case) {
			fmt.Fprintln(w, "\t\t\t\t\t\t\t\t\t")
		}
		if len(r.Samples) == 0 {
			fmt.Fprintf(w, "%s\t%s\t%s\t0\t-\t-\t-\t\t-\t%s\n", r.Measure, r.Case, r.Peer, term.Cut(r.Note, 70))
			continue
		}
		ratio := "-"
		if r.Ratio > 0 && !math.IsInf(float64(r.Ratio), 0) {
			ratio = r.Ratio.String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%v\t%v\t%v\t%s\t%s\t%s\n",
			r.Measure, r.Case, r.Peer, len(r.Samples), r.Median, r.Min, r.Max, r.Unit, ratio, term.Cut(r.Note, 70))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// result is the content of one measurement's JSON file.
type result struct {
	Time    time.Time `json:"time"`
	Machine machine   `json:"machine"`
	Rows    []row     `json:"rows"`
}

func writeJSON(folder, measure string, r result) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, measure+".json"), append(text, '\n'), 0o644)
}
