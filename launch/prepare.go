package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/smallfile"
	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch/logs"
	"github.com/gorun/gorun/launch/meet"
	"github.com/gorun/gorun/launch/scratch"
	"github.com/gorun/gorun/launch/slurm"
	"github.com/gorun/gorun/launch/socket"
	"github.com/gorun/gorun/launch/spec/surroundings"
	"github.com/gorun/gorun/rendezvous"
	"golang.org/x/sys/unix"
)

// prepare makes everything that the loop needs.
func (a *agent) prepare(ctx context.Context) (err error) {
	if err := a.findSecret(ctx); err != nil {
		return err
	}
	a.hangs = a.newHangs()
	a.status = a.newStatus()
	if err := a.serveMetrics(ctx); err != nil {
		return err
	}
	if err := a.env.find(ctx); err != nil {
		return err
	}
	sp := a.opts.Spec
	a.node = rendezvous.Node{
		ID: rendezvous.NewNodeID(), RunID: sp.RunID, Protocol: rendezvous.Protocol, Version: a.opts.Version,
		Host: hostName(), PID: os.Getpid(), Role: sp.Role, NodeRank: sp.NodeRank, Endpoint: -1,
		Min: sp.MinNodes, Max: sp.MaxNodes,
	}
	if a.opts.Local != nil {
		a.node.NodeRank = a.opts.Local.Index
	}
	var identity *rendezvous.Identity
	if !meet.IsAlone(&sp.Network, sp.MaxNodes) { // what others need of this node takes two milliseconds to make
		identity = rendezvous.NewIdentity()
		a.node.ID, a.node.Networks = identity.ID(), meet.Networks(ctx)
	}
	a.workers.driver = a.newDriver()
	a.placement = a.newPlacement()
	a.surveyGPUs(ctx)
	if a.node.Workers, err = a.countWorkers(ctx); err != nil {
		return &UsageError{Err: err}
	}
	if err := a.node.Validate(); err != nil {
		return &UsageError{Err: fmt.Errorf("this node cannot join a job: %w", err)}
	}
	if err := a.workers.receiveTasks(ctx); err != nil {
		return err
	}
	if err := a.workers.prepareOutput(ctx); err != nil {
		return err
	}
	if err := a.prepareProgram(ctx); err != nil {
		return err
	}
	if err := a.prepareCheck(ctx); err != nil {
		return err
	}
	a.placeWorkers(ctx)
	server, err := socket.Open(ctx, socket.Options{
		Pool: a.pool, Path: a.opts.Scratch.Socket(),
		Failed: func(r socket.Report) { a.events.Put(failureReported{r}) },
		Lost:   func(r socket.Report) { a.events.Put(connectionLost{r}) },
		Warn: func(text string) {
			if a.opts.printsWarnings() {
				a.console.Say("warning: %s", text)
			}
		},
	})
	var absent []string
	if a.workers.output.NoFiles {
		absent = append(absent, "TORCHELASTIC_ERROR_FILE")
	}
	if scratch.IsUnwritable(err) {
		absent = append(absent, "GORUN_WORKER_SOCKET")
		server, err = socket.NewUnreachable(), nil
	}
	if err != nil {
		return err
	}
	if len(absent) > 0 && a.opts.printsWarnings() {
		a.console.Say("no folder for temporary files can be written, so workers have no %s; set TMPDIR to a folder that can", strings.Join(absent, " and no "))
	}
	a.workers.socket, a.workers.placement = server, a.placement
	a.wg.Go(func() { _ = server.Serve(ctx) })
	if err := a.connect(ctx, identity); err != nil {
		return err
	}
	a.warnWithoutSecret()
	if a.slurm = (slurmLimit{on: sp.Surroundings.IsSlurm(), step: sp.Surroundings.Kind == surroundings.SlurmStep && !term.IsTerminal(a.opts.Stdin), killWait: slurm.DefaultKillWait}); a.slurm.on {
		time.AfterFunc(slurm.AskDelay(sp.MaxNodes), func() { a.events.Put(killWaitDue{}) })
	}
	time.AfterFunc(statusDelay, func() { a.events.Put(statusDelayElapsed{}) })
	if a.check != nil {
		a.check.Start(ctx, a.node, a.secrets.trust(sp.RunID))
	}
	if err := a.waitForPlacement(ctx); err != nil {
		return err
	}
	a.watchSignals(ctx)
	a.hangs.run(ctx, a)
	return nil
}

// prepareOutput decides where the workers' output goes.
func (s *supervisor) prepareOutput(ctx context.Context) error {
	sp := &s.opts.Spec
	writable := func(flag, name string) error {
		if name == "" {
			return nil
		}
		_, err := await(ctx, s.base, fmt.Sprintf("looking for the folder of %s %s", flag, name), func(context.Context) (struct{}, error) { return struct{}{}, smallfile.Writable(name) })
		if _, ended := errors.AsType[*stopped](err); err == nil || ended {
			return err
		}
		return &UsageError{Err: fmt.Errorf("%s %s: %w", flag, name, err)}
	}
	if err := writable("--report", sp.ReportFile); err != nil {
		sp.ReportFile = "" // there is no place even to report this error
		return err
	}
	if sp.Check != nil {
		if err := writable("--save", sp.Check.Save); err != nil {
			return err
		}
	}
	o := logs.OutputOptions{
		LogDir: sp.LogDir, Redirects: sp.Redirects, Tee: sp.Tee, Filter: logs.Filter(sp.Filters), Dry: sp.Check != nil || sp.Dry != nil,
		RunID: sp.RunID, Workers: s.node.Workers,
	}
	type made struct {
		output logs.Output
		notes  []string
	}
	m, err := await(ctx, s.base, "making the folder of the log files", func(context.Context) (m made, err error) {
		o.Temp = s.opts.Scratch.Logs() // looks for a folder
		m.output, m.notes, err = logs.NewOutput(o)
		return m, err
	})
	for _, note := range m.notes {
		s.console.Announce("%s", note)
	}
	if _, ended := errors.AsType[*stopped](err); ended {
		return err
	}
	if err != nil {
		return &UsageError{Err: err}
	}
	s.output = m.output
	return nil
}

// stopped is the error of an agent that ends before its loop runs.
type stopped struct{ cause rendezvous.Cause }

func (s *stopped) Error() string { return s.cause.Line() }

// cancelTimeout bounds the wait for a call that ignores its context: a look-up in a
// C library, a child process that hangs in a driver.
const cancelTimeout = time.Second

// await calls f, which may take long, before the loop runs. Now and then it prints
// what it waits for ("looking up the endpoint"). It returns a *stopped when a
// signal ends the job. After an error the caller must not touch what it shares with
// f, because f may still run.
func await[T any](ctx context.Context, b *base, what string, f func(context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan result, 1)
	go func() {
		v, err := f(ctx)
		done <- result{v, err}
	}()
	defer b.console.While(what)()
	var cause rendezvous.Cause
	for cause.Kind == "" {
		select {
		case r := <-done:
			return r.value, r.err
		case s := <-b.opts.Signals:
			if sig := s.(syscall.Signal); b.endsJob(sig) {
				cause = withSignal(b.nodeCause(rendezvous.KindStopped, ""), sig)
			}
		case <-b.opts.Keeper:
			cause = b.keeperCause()
		case <-ctx.Done():
			cause = withSignal(b.nodeCause(rendezvous.KindStopped, ""), unix.SIGTERM)
		}
	}
	cancel()
	select {
	case <-done:
	case <-time.After(cancelTimeout):
	}
	var none T
	return none, fmt.Errorf("%s: %w", what, &stopped{cause})
}
