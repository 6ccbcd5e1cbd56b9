package selftest

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/gorun/gorun/internal/term"
)

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes the report for a person.
func (r *Report) WriteTable(out io.Writer) error {
	fmt.Fprintf(out, "computed on %s\n\n", r.computers())
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "rung\tgroups\tranks\tsize\ttime\tbus bandwidth\tslowest group\n")
	for _, g := range r.Rungs {
		if len(g.Sizes) == 0 {
			fmt.Fprintf(w, "%s\t%d\t%d\t\t\t\t\n", g.Rung, g.Groups, g.Ranks)
		}
		for i, s := range g.Sizes {
			name, groups, ranks := g.Rung, fmt.Sprint(g.Groups), fmt.Sprint(g.Ranks)
			if i > 0 {
				name, groups, ranks = "", "", ""
			}
			slowest := ""
			if g.Groups > 1 {
				slowest = fmt.Sprintf("%s (%.2f x)", r.groupName(s.Slow), s.Worst/s.Median)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, groups, ranks, sizeText(s.Bytes), timeText(s.Median), s.bandwidth(), slowest)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := r.writeNodes(out); err != nil {
		return err
	}
	for _, text := range r.Warnings {
		fmt.Fprintf(out, "warning: %s\n", text)
	}
	if r.Failure != nil {
		fmt.Fprintf(out, "FAILED at the rung %q: %s\nfix: %s\n", r.Failure.Rung, r.Failure.Text, r.Failure.Fix)
		if bad := r.Hosts(StateBad); len(bad) > 0 {
			fmt.Fprintf(out, "in Slurm: %s\n", term.Command("scontrol", "update", "NodeName="+strings.Join(bad, ","), "State=DRAIN", "Reason=gorun selftest: "+r.Failure.Rung))
		}
		if good := r.Hosts(StateGood, StateSlow); len(good) > 0 && len(r.NotPlayed) > 0 {
			fmt.Fprintf(out, "good so far: %s; not tested after the fault: %s. Test them again, without the others\n", strings.Join(fewHosts(good), ","), strings.Join(r.NotPlayed, ", "))
		}
	}
	return nil
}

// computers says what computed: CPUs, or GPUs with their models and library.
func (r *Report) computers() string {
	var models, releases []string
	gpus := 0
	for i := range r.Ranks {
		if g := r.Ranks[i].GPU; g != nil {
			gpus++
			models, releases = append(models, g.Model), append(releases, g.release())
		}
	}
	if gpus == 0 && r.Compute == ComputeGPU {
		return "GPUs"
	} else if gpus == 0 {
		return "CPUs"
	}
	slices.Sort(models)
	slices.Sort(releases)
	return fmt.Sprintf("%s (%s) with NCCL %s", counted(gpus, "GPU"), strings.Join(few(slices.Compact(models)), ", "), strings.Join(few(slices.Compact(releases)), ", "))
}

// writeNodes writes a line for each node that is not good, and one for all others.
func (r *Report) writeNodes(out io.Writer) error {
	const most = 16
	var times []float64
	good, odd := 0, 0
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\nnode\thost\tstate\tbest pair\tslow\n")
	for _, n := range r.Nodes {
		if n.State == StateGood {
			good++
			times = append(times, n.Pair)
			continue
		}
		if odd++; odd <= most {
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", n.Node, n.Host, n.State, n.cells())
		}
	}
	if odd == 0 {
		return nil
	}
	if odd > most {
		fmt.Fprintf(w, "%d more\t\t\t\n", odd-most)
	}
	if good > 0 {
		rate := ""
		if m := median(times); m > 0 {
			rate = fmt.Sprintf("%.2f GB/s", m)
		}
		fmt.Fprintf(w, "%d others\t\t%s\t%s\n", good, StateGood, rate)
	}
	return w.Flush()
}

// cells returns how fast the node is with its best partner, and why it is slow.
func (n *NodeReport) cells() string {
	pair := ""
	if n.Pair > 0 {
		pair = fmt.Sprintf("%.2f GB/s, %.2f x the usual time", n.Pair, n.PairTimes)
	}
	return pair + "\t" + n.Slow
}

// fewHosts returns the first hosts, and that there are more.
func fewHosts(hosts []string) []string {
	const most = 8
	if len(hosts) <= most {
		return hosts
	}
	return append(hosts[:most:most], "…")
}

// bandwidth returns the bus bandwidth as text. Of a few bytes only the time says something.
func (s *Size) bandwidth() string {
	if s.Bytes < kib {
		return ""
	}
	return fmt.Sprintf("%.2f GB/s", s.BusBW)
}

// groupName names a group: its ranks, and their hosts.
func (r *Report) groupName(ranks []int) string {
	var hosts []string
	for _, rank := range ranks {
		if rank < 0 || rank >= len(r.Ranks) { // in a report that another rank made
			continue
		}
		if h := r.Ranks[rank].Host; !slices.Contains(hosts, h) {
			hosts = append(hosts, h)
		}
	}
	const most = 3
	if len(hosts) > most {
		hosts = append(hosts[:most:most], "…")
	}
	if len(ranks) > most {
		return strings.Join(hosts, ",")
	}
	return fmt.Sprintf("%s ranks %s", strings.Join(hosts, ","), strings.Trim(fmt.Sprint(ranks), "[]"))
}

func sizeText(bytes int) string {
	switch {
	case bytes >= mib:
		return fmt.Sprintf("%d MiB", bytes/mib)
	case bytes >= kib:
		return fmt.Sprintf("%d KiB", bytes/kib)
	}
	return fmt.Sprintf("%d B", bytes)
}

func timeText(seconds float64) string {
	if seconds < 1e-3 {
		return fmt.Sprintf("%.1f us", seconds*1e6)
	}
	return fmt.Sprintf("%.2f ms", seconds*1e3)
}

// counted returns a number of things: 1 GPU, 2 GPUs.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// few returns the first lines, and how many more there are.
func few(lines []string) []string {
	const most = 8
	if len(lines) <= most {
		return lines
	}
	return append(lines[:most:most], fmt.Sprintf("and %d more", len(lines)-most))
}
