// Command bench measures gorun beside the launchers that people use today, in
// interleaved rounds of one run, and prints one table. README.md describes it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

type options struct {
	gorun  string
	out    string
	only   string
	peers  string
	reps   int
	budget time.Duration
	bound  time.Duration
	quick  bool

	profile string
}

// defaultReps has the number of rounds of each measurement, in the order of the table.
var defaultReps = []struct {
	measure     string
	reps, quick int
}{
	{"start8", 30, 10},
	{"nodes", 10, 3},
	{"fleet", 5, 1},
	{"memory", 3, 1},
	{"abort", 50, 5},
	{"agentkill", 10, 2},
	{"spare", 12, 2},
	{"preflight", 10, 3},
	{"explain", 3, 1},
	{"store", 7, 2},
	{"collectives", 7, 1},
	{"slurm", 10, 3},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	// Every process that a launcher leaves behind becomes a child of this process.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot become a subreaper: %w", err)
	}
	module, err := os.Getwd()
	if err != nil {
		return err
	}
	l, err := newLab(ctx, module, o.gorun)
	if err != nil {
		return err
	}
	defer l.close()
	if o.profile != "" {
		end, err := profile(o.profile)
		if err != nil {
			return err
		}
		defer end()
	}
	if slices.ContainsFunc([]string{"nodes", "memory", "fleet", "spare"}, func(m string) bool { return selected(o.only, m) }) {
		l.startEtcd()
	}

	if selected(o.only, "slurm") {
		l.startSlurm()
	}

	selectedPeers := choose(peers(ctx, l), o.peers)
	m := describeMachine()
	fmt.Printf("%s; workers in %s; medians of interleaved rounds\n", m, l.compiler)
	var all []row
	for _, r := range defaultReps {
		if !selected(o.only, r.measure) {
			continue
		}
		e := effort{reps: r.reps, budget: o.budget}
		if o.quick {
			e.reps = r.quick
		}
		if o.reps > 0 {
			e.reps = o.reps
		}
		if r.measure == "collectives" {
			if selectedPeers, err = collectivePeers(ctx, l); err != nil {
				return err
			}
		}
		result := result{Time: time.Now().UTC(), Machine: m}
		for _, sc := range scenarios(r.measure, o) {
			each, err := sc.runAll(ctx, l, selectedPeers, e)
			if err != nil {
				return errors.Join(err, printTable(os.Stdout, all))
			}
			result.Rows = append(result.Rows, sc.rows(each)...)
		}
		if err := writeJSON(o.out, r.measure, result); err != nil {
			return err
		}
		all = append(all, result.Rows...)
	}
	return printTable(os.Stdout, all)
}

// profile writes a CPU profile to a file until the caller calls end.
func profile(file string) (end func(), err error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		f.Close()
		return nil, err
	}
	return func() { pprof.StopCPUProfile(); f.Close() }, nil
}

func parseOptions(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&o.gorun, "gorun", "", "path of gorun (default: bin/gorun, after make build)")
	f.StringVar(&o.out, "out", "bench/out", "folder for the JSON files")
	f.StringVar(&o.only, "only", "", "measurements, with commas: "+strings.Join(measures(), ","))
	f.StringVar(&o.peers, "peers", "", "peers, with commas (default: all that are installed)")
	f.IntVar(&o.reps, "reps", 0, "rounds (default: by measurement)")
	f.DurationVar(&o.budget, "budget", 8*time.Second, "time for one peer in one scenario; a slow peer runs less often")
	f.DurationVar(&o.bound, "bound", 3*time.Second, "after this long without a death, it counts as never")
	f.StringVar(&o.profile, "profile", "", "write this process's CPU profile to a file: fleet and preflight run in it")
	f.BoolVar(&o.quick, "quick", false, "few rounds, small sizes: under two minutes")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("cannot use argument %q", f.Arg(0))
	}
	if o.reps < 0 || o.budget <= 0 || o.bound <= 0 {
		return o, errors.New("-reps, -budget and -bound must be positive")
	}
	for _, name := range split(o.only) {
		if !slices.Contains(measures(), name) {
			return o, fmt.Errorf("cannot measure %q: there are %s", name, strings.Join(measures(), ", "))
		}
	}
	if o.quick {
		o.budget = min(o.budget, 2*time.Second)
	}
	return o, nil
}

func scenarios(measure string, o options) []scenario {
	switch measure {
	case "start8":
		return start8()
	case "nodes":
		return nodes(o.quick)
	case "fleet":
		return fleets(o.quick)
	case "memory":
		return memory()
	case "abort":
		return abort(o.bound)
	case "preflight":
		return preflightCosts(o.quick)
	case "explain":
		return explainCosts(o.quick)
	case "agentkill":
		return agentKill(o.bound + 2*time.Second)
	case "spare":
		return spares()
	case "collectives":
		return allReduces(o.quick)
	case "store":
		return stores(o.quick)
	case "slurm":
		return slurmStart(o.quick)
	}
	return nil
}

func measures() []string {
	var names []string
	for _, r := range defaultReps {
		names = append(names, r.measure)
	}
	return names
}

func selected(list, name string) bool {
	return list == "" || slices.Contains(split(list), name)
}

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

func choose(all []*peer, list string) []*peer {
	return slices.DeleteFunc(all, func(p *peer) bool { return !selected(list, p.name) })
}

// machine has the properties of the machine that the numbers depend on.
type machine struct {
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
}

func describeMachine() machine {
	m := machine{CPUs: runtime.NumCPU(), Go: runtime.Version()}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	return m
}

func (m machine) String() string {
	return fmt.Sprintf("%d CPUs, Linux %s, %s", m.CPUs, m.Kernel, m.Go)
}
