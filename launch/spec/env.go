package spec

import (
	"fmt"

	"github.com/gorun/gorun/envprop"
)

// Env holds what the user asks of the workers' environment.
type Env struct {
	Export, Unset []string // arguments of -x and --unset; package envprop reads them
	Files         []string // arguments of --env-file
	Conflict      envprop.Conflict
	OMPCores      bool // --omp=cores
	NoRecorder    bool // --flight-recorder=off: PyTorch's recorder is left as it is
}

// Dry says what gorun shows of a job that it does not start.
type Dry struct {
	EveryPart bool // --dry-run: world, commands and environment; otherwise gorun env
	Shown
}

// Shown says which part of the environment gorun env prints.
type Shown struct {
	Rank, Node int  // -1: all
	Diff       bool // only what differs
	JSON       bool
}

func (in *input) environment(s *Spec) {
	s.Env = Env{Export: in.list("export"), Unset: in.list("unset"), Files: in.list("env_file")}
	v := in.get("env_conflict")
	var err error
	if s.Env.Conflict, err = envprop.ParseConflict(v.text); err != nil {
		in.fail("%w", err)
	}
	omp := "torchrun"
	if s.Surroundings.TaskWorkers { // the scheduler gives each worker cores of its own
		omp = "cores"
	}
	switch v := in.text("omp", omp); v.text {
	case "torchrun":
	case "cores":
		s.Env.OMPCores = true
	default:
		in.fail("cannot use %s: %q is neither cores nor torchrun", v.from, v.text)
	}
	switch v := in.text("flight_recorder", "on"); v.text {
	case "on":
	case "off":
		s.Env.NoRecorder = true
	default:
		in.fail("cannot use %s: %q is neither on nor off", v.from, v.text)
	}
	dry := in.isOn("dry_run")
	switch {
	case in.raw.Show:
		for _, name := range []string{"run_id", "pid"} {
			if v := in.get(name); v.given {
				in.fail("cannot use %s with a program: it means a job that runs", v.from)
			}
		}
		s.Dry = &Dry{Shown: in.shown()}
	case dry && !in.raw.Check: // gorun check starts nothing anyway
		s.Dry = &Dry{EveryPart: true, Shown: Shown{Rank: -1, Node: -1, Diff: true}}
	}
}

// Shown reads what gorun env prints of a running job.
func (r Raw) Shown() (Shown, error) {
	in := &input{raw: r, lookup: func(string) (string, bool) { return "", false }}
	s := in.shown()
	return s, in.err
}

func (in *input) shown() Shown {
	s := Shown{Diff: in.isOn("diff"), JSON: in.isOn("json")}
	s.Rank, _ = in.number("rank", -1, 0)
	s.Node, _ = in.number("node", -1, 0)
	if s.Rank >= 0 && s.Node >= 0 {
		in.fail("cannot use --rank together with --node: a rank is on one node")
	}
	return s
}

// Wants reports whether gorun env prints a rank of a node.
func (s Shown) Wants(node, rank int) bool {
	return (s.Rank < 0 || s.Rank == rank) && (s.Node < 0 || s.Node == node)
}

// What names the requested rank or node for messages.
func (s Shown) What() string {
	switch {
	case s.Rank >= 0:
		return fmt.Sprintf("rank %d", s.Rank)
	case s.Node >= 0:
		return fmt.Sprintf("node %d", s.Node)
	default:
		return "any rank"
	}
}
