package launch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/smallfile"
	"github.com/gorun/gorun/launch/logs"
	"github.com/gorun/gorun/launch/meet"
	"github.com/gorun/gorun/launch/socket"
	"github.com/gorun/gorun/rendezvous"
)

// prepare makes everything that the loop needs.
func (a *agent) prepare(ctx context.Context) (err error) {
	if err := a.findSecret(ctx); err != nil {
		return err
	}
	a.status = a.newStatus()
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
	if a.node.Workers, err = a.countWorkers(ctx); err != nil {
		return &UsageError{Err: err}
	}
	if err := a.node.Validate(); err != nil {
		return &UsageError{Err: fmt.Errorf("this node cannot join a job: %w", err)}
	}
	lack, err := a.workers.prepareOutput()
	if err != nil {
		return err
	}
	if err := a.prepareProgram(ctx); err != nil {
		return err
	}
	if err := a.prepareCheck(ctx); err != nil {
		return err
	}
	a.placeWorkers(ctx)
	server, err := socket.Open(ctx, a.pool, a.opts.Scratch.Socket(), func(r socket.Report) { a.events.Put(failureReported{r}) })
	if isUnwritable(err) {
		lack = append(lack, "GORUN_WORKER_SOCKET")
		server, err = socket.NewUnreachable(), nil
	}
	if err != nil {
		return err
	}
	if len(lack) > 0 && a.opts.printsWarnings() {
		a.console.Say("no folder for temporary files can be written, so workers have no %s; set TMPDIR to a folder that can", strings.Join(lack, " and no "))
	}
	a.workers.socket, a.workers.placement = server, a.placement
	a.wg.Go(func() { _ = server.Serve(ctx) })
	if err := a.connect(ctx, identity); err != nil {
		return err
	}
	a.warnWithoutSecret()
	time.AfterFunc(statusDelay, func() { a.events.Put(statusDelayElapsed{}) })
	if a.check != nil {
		a.check.Start(ctx, a.node)
	}
	if err := a.waitForPlacement(ctx); err != nil {
		return err
	}
	a.watchSignals(ctx)
	return nil
}

// prepareOutput decides where the workers' output goes. lack lists the variables
// that workers do without because there is no place for files.
func (s *supervisor) prepareOutput() (lack []string, err error) {
	sp := s.opts.Spec
	var out output
	if out.redirect, err = logs.ParseStd(sp.Redirects); err != nil {
		return nil, &UsageError{Err: fmt.Errorf("--redirects: %w", err)}
	}
	if out.tee, err = logs.ParseStd(sp.Tee); err != nil {
		return nil, &UsageError{Err: fmt.Errorf("--tee: %w", err)}
	}
	if err := smallfile.Writable(sp.ReportFile); err != nil {
		s.opts.Spec.ReportFile = "" // there is no place even to report this error
		return nil, &UsageError{Err: fmt.Errorf("--report %s: %w", sp.ReportFile, err)}
	}
	if sp.Check != nil {
		if err := smallfile.Writable(sp.Check.Save); err != nil {
			return nil, &UsageError{Err: fmt.Errorf("--save %s: %w", sp.Check.Save, err)}
		}
	}
	logDir := sp.LogDir
	if sp.Check != nil || sp.Dry != nil { // gorun starts no worker that could write
		out.redirect, out.tee, logDir = logs.StdSpec{}, logs.StdSpec{}, ""
	}
	s.noteUnusedFlag("--redirects", out.redirect)
	s.noteUnusedFlag("--tee", out.tee)
	written := out.redirect.Any(s.node.Workers) || out.tee.Any(s.node.Workers)
	out.folders, err = logs.NewFolders(logs.FolderOptions{
		Base: logDir, Temp: s.opts.Scratch.Logs(written), RunID: sp.RunID, Workers: s.node.Workers,
	})
	if sp.LogDir == "" && !written && isUnwritable(err) { // otherwise the user wants files
		lack = append(lack, "TORCHELASTIC_ERROR_FILE")
		out.folders, err = &logs.Folders{}, nil
	}
	if err != nil {
		return nil, &UsageError{Err: err}
	}
	if logDir == "" && written {
		s.console.Announce("the workers' output is in %s", out.folders.Path)
	}
	s.output = out
	return lack, nil
}

// isUnwritable reports whether an error says that nothing can be written there. A job
// that needs no files must not end for that.
func isUnwritable(err error) bool {
	for _, e := range []error{unix.EROFS, unix.EACCES, unix.EPERM, unix.ENOENT, unix.ENOSPC, unix.EDQUOT} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// noteUnusedFlag announces that a flag has an effect only on workers that other nodes
// may have. torchrun accepts that silently, and nodes may have different numbers of
// workers.
func (s *supervisor) noteUnusedFlag(flag string, std logs.StdSpec) {
	if std.Any(math.MaxInt) && !std.Any(s.node.Workers) {
		s.console.Announce("%s %s has no effect on this node: its local ranks are below %d", flag, std, s.node.Workers)
	}
}
