package wrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/environ"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/rendezvous/preflight"
)

const (
	// localTimeout bounds a probe, all attempts together.
	localTimeout = 10 * time.Second
	// elsewhereTimeout bounds a probe in a container or on another host.
	elsewhereTimeout = 20 * time.Second
	// cleanupTimeout bounds the removal of what a probe left.
	cleanupTimeout = 5 * time.Second
	// noticeAfter is the time after which Probe says what it waits for.
	noticeAfter = 2 * time.Second
)

// The variable of markerName is in every environment that the probe itself printed.
const (
	markerName  = "GORUN_PROBE"
	markerValue = "seen"
)

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
func Probe(ctx context.Context, o Options) (preflight.WrapperLoss, error) {
	p := o.Prefix
	timeout := localTimeout
	if p.isElsewhere() {
		timeout = elsewhereTimeout
	}
	for _, l := range p.layers {
		if _, set := environ.Lookup(o.Sent.Env, l.requires); !set && l.requires != "" {
			return preflight.WrapperLoss{}, fmt.Errorf("%s is started outside of an allocation (no %s), where it would have to wait for one", l.name, l.requires)
		}
	}
	probeCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	t := time.AfterFunc(noticeAfter, func() { o.Say("preflight: waiting to see the environment behind %s, at most %v", p.Name(), timeout) })
	defer t.Stop()
	o.Sent = o.Sent.withUnknown()
	failure := errors.New("nothing was printed")
	for _, program := range printers(p.program) {
		out, err := o.run(probeCtx, p.command(len(p.layers), o.Name, program))
		if probeCtx.Err() != nil {
			o.cleanup(context.WithoutCancel(ctx))
			return preflight.WrapperLoss{}, fmt.Errorf("nothing came from behind %s within %v", p.Name(), timeout)
		}
		got := parseOutput(out)
		if err == nil && got[markerName] == markerValue {
			return p.compare(o.Sent, got), nil
		}
		if err != nil {
			failure = err
		}
	}
	return preflight.WrapperLoss{}, fmt.Errorf("no environment could be printed behind %s: %w", p.Name(), failure)
}

// printers lists programs that print the environment, in the order in which to try
// them. An image may have only one of them. worker is the worker's command line.
func printers(worker []string) [][]string {
	const marker = markerName + "=" + markerValue
	all := [][]string{
		{"env", "-0", marker},
		{"/bin/sh", "-c", marker + " exec cat /proc/self/environ"},
	}
	if len(worker) > 0 && strings.HasPrefix(filepath.Base(worker[0]), "python") {
		all = append(all, []string{worker[0], "-S", "-E", "-c", "import os\nos.environb[b'" + markerName + "']=b'" + markerValue + "'\n" +
			"for n,v in os.environb.items(): os.write(1,n+b'='+v+b'\\0')"})
	}
	return all
}

// cleanup removes the containers that a killed probe may have left.
func (o Options) cleanup(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	for _, argv := range o.Prefix.cleanup(o.Name) {
		_, _ = o.run(ctx, argv)
	}
}

// run returns the output of a program that ends with 0. It ends everything that the
// program started.
func (o Options) run(ctx context.Context, argv []string) ([]byte, error) {
	out, code, err := o.Table.Run(ctx, o.Path, argv, o.Sent.Env, o.Dir)
	if err != nil {
		return nil, err
	}
	stop, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	_, _ = o.Table.Stop(stop, process.StopOptions{}) // what the program left
	if code != 0 {
		return nil, fmt.Errorf("it ended with code %d%s", code, reason(out))
	}
	return out, nil
}

// reason returns the line of an output that explains the failure, as the end of a
// sentence: the last line that is not advice on where to find help. It leaves out
// the environment, up to the last zero byte.
func reason(out []byte) string {
	line := ""
	for text := range bytes.Lines(out[bytes.LastIndexByte(out, 0)+1:]) {
		text := strings.TrimSpace(string(text))
		advice := strings.HasSuffix(strings.TrimRight(text, "'\". "), "--help") || strings.Contains(text, "--help' for more")
		if text != "" && (!advice || line == "") {
			line = text
		}
	}
	if line == "" {
		return ""
	}
	return fmt.Sprintf(" (%.400s)", line)
}
