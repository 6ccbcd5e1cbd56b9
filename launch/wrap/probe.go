package wrap

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// Limits of a probe, for all attempts together. A container or another host takes
// longer to answer. The removal of a container has a limit of its own.
const (
	quick   = 10 * time.Second
	patient = 20 * time.Second
	undoing = 5 * time.Second
	spoken  = 2 * time.Second // after which Probe says what it waits for
)

// marker is in every environment that the probe itself printed.
const marker = "GORUN_PROBE=seen"

// Options holds what a probe needs.
type Options struct {
	Prefix Prefix
	Path   string // absolute path of the first wrapper
	Dir    string // working directory
	Sent   Sent
	Table  *process.Table
	Name   string // unique name for a container of the probe
	Say    func(format string, args ...any)
}

// Probe runs the wrappers with a program that prints its environment, and returns
// what was lost on the way. The error says why that is not known.
func Probe(ctx context.Context, o Options) (preflight.Lost, error) {
	p := o.Prefix
	limit := quick
	if p.isSlow() {
		limit = patient
	}
	for _, l := range p.layers {
		if l.needs != "" && !slices.ContainsFunc(o.Sent.Env, func(e string) bool { return strings.HasPrefix(e, l.needs+"=") }) {
			return preflight.Lost{}, fmt.Errorf("%s is started outside of an allocation (no %s), where it would have to wait for one", l.name, l.needs)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t := time.AfterFunc(spoken, func() { o.Say("preflight: waiting to see the environment behind %s, at most %v", p.Name(), limit) })
	defer t.Stop()
	o.Sent.Env = append(slices.Clone(o.Sent.Env), stranger)
	why := errors.New("nothing was printed")
	for _, program := range programs(p) {
		out, err := o.run(ctx, p.Command(o.Name, program...))
		if ctx.Err() != nil {
			o.undo(context.WithoutCancel(ctx))
			return preflight.Lost{}, fmt.Errorf("nothing came from behind %s within %v", p.Name(), limit)
		}
		got := parse(out)
		if name, value, _ := strings.Cut(marker, "="); err == nil && got[name] == value {
			return p.compare(o.Sent, got), nil
		} else if err != nil {
			why = err
		}
	}
	return preflight.Lost{}, fmt.Errorf("no environment could be printed behind %s: %w", p.Name(), why)
}

// programs lists programs that print the environment, in the order in which to try
// them. An image may have only one of them.
func programs(p Prefix) [][]string {
	all := [][]string{
		{"env", "-0", marker},
		{"/bin/sh", "-c", marker + " exec cat /proc/self/environ"},
	}
	if own := p.program; len(own) > 0 && strings.HasPrefix(filepath.Base(own[0]), "python") {
		name, value, _ := strings.Cut(marker, "=")
		all = append(all, []string{own[0], "-S", "-E", "-c", "import os\nos.environb[b'" + name + "']=b'" + value + "'\n" +
			"for n,v in os.environb.items(): os.write(1,n+b'='+v+b'\\0')"})
	}
	return all
}

// undo removes the containers that a killed probe may have left.
func (o Options) undo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, undoing)
	defer cancel()
	for _, argv := range o.Prefix.undo(o.Name) {
		_, _ = o.run(ctx, argv)
	}
}
