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

// prepare makes everything that the loop needs; finish undoes it.
func (a *agent) prepare(ctx context.Context) (finish func(), err error) {
	var undo []func()
	finish = func() {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
	}
	if err := a.findSecret(ctx); err != nil {
		return finish, err
	}
	if err := a.findRequest(ctx); err != nil {
		return finish, err
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
	if !meet.Alone(&sp.Network, sp.MaxNodes) { // what others need of this node takes two milliseconds
		identity = rendezvous.NewIdentity()
		a.node.ID, a.node.Networks = identity.ID(), meet.Networks(ctx)
	}
	a.placing = a.newPlacing()
	if a.node.Workers, err = a.countWorkers(ctx); err != nil {
		return finish, &UsageError{Err: err}
	}
	if err := a.node.Validate(); err != nil {
		return finish, &UsageError{Err: fmt.Errorf("this node can be part of no job: %w", err)}
	}
	lack, err := a.prepareWorkers()
	if err != nil {
		return finish, err
	}
	undo = append(undo, a.output.folders.RemoveEmpty)
	if err := a.prepareProgram(ctx); err != nil {
		return finish, err
	}
	if err := a.prepareExam(ctx); err != nil {
		return finish, err
	}
	a.placeWorkers(ctx)
	a.socket, err = socket.Open(ctx, a.pool, a.opts.Scratch.Socket(), func(r socket.Report) { a.events.Put(reportEvent{r}) })
	if noPlace(err) {
		lack = append(lack, "GORUN_WORKER_SOCKET")
		a.socket, err = socket.Nowhere(), nil
	}
	if err != nil {
		return finish, err
	}
	if len(lack) > 0 && a.warns() {
		a.console.say("there is no folder for temporary files that can be written, so workers have no %s; TMPDIR names one", strings.Join(lack, " and no "))
	}
	a.wg.Go(func() { _ = a.socket.Serve(ctx) })
	if err := a.connect(ctx, identity); err != nil {
		return finish, err
	}
	a.warnOfStrangers()
	a.warnOfClearText()
	time.AfterFunc(statusAfter, func() { a.events.Put(statusEvent{}) })
	if a.check != nil {
		a.check.Start(ctx, a.node)
	}
	if err := a.placed(ctx); err != nil {
		return finish, err
	}
	a.watch(ctx)
	return finish, nil
}

// prepareWorkers settles what all rounds of workers have in common. Lack is the
// variables that they do without because there is no place for files.
func (a *agent) prepareWorkers() (lack []string, err error) {
	sp := a.opts.Spec
	var out output
	if out.redirect, err = logs.ParseStd(sp.Redirects); err != nil {
		return nil, &UsageError{Err: fmt.Errorf("--redirects: %w", err)}
	}
	if out.tee, err = logs.ParseStd(sp.Tee); err != nil {
		return nil, &UsageError{Err: fmt.Errorf("--tee: %w", err)}
	}
	if err := smallfile.Writable(sp.ReportFile); err != nil {
		a.opts.Spec.ReportFile = "" // there is no place to report even this
		return nil, &UsageError{Err: fmt.Errorf("--report %s: %w", sp.ReportFile, err)}
	}
	if sp.Check != nil {
		if err := smallfile.Writable(sp.Check.Save); err != nil {
			return nil, &UsageError{Err: fmt.Errorf("--save %s: %w", sp.Check.Save, err)}
		}
	}
	logDir := sp.LogDir
	if sp.Check != nil || sp.Dry != nil { // no worker will write anything
		out.redirect, out.tee, logDir = logs.StdSpec{}, logs.StdSpec{}, ""
	}
	a.noteNoWorker("--redirects", out.redirect)
	a.noteNoWorker("--tee", out.tee)
	written := out.redirect.Any(a.node.Workers) || out.tee.Any(a.node.Workers)
	out.folders, err = logs.NewFolders(logs.FolderOptions{
		Base: logDir, Temp: a.opts.Scratch.Logs(written), RunID: sp.RunID, Workers: a.node.Workers,
	})
	if sp.LogDir == "" && !written && noPlace(err) { // else the user wants files
		lack = append(lack, "TORCHELASTIC_ERROR_FILE")
		out.folders, err = &logs.Folders{}, nil
	}
	if err != nil {
		return nil, &UsageError{Err: err}
	}
	if logDir == "" && written && !a.opts.quiet() {
		a.console.say("the workers' output is in %s", out.folders.Path)
	}
	a.output = out
	return lack, nil
}

// noPlace reports whether nothing can be written where an error comes from: a job
// that needs no files must not end for that.
func noPlace(err error) bool {
	for _, e := range []error{unix.EROFS, unix.EACCES, unix.EPERM, unix.ENOENT, unix.ENOSPC, unix.EDQUOT} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// noteNoWorker says that a flag is only about workers that other nodes may have.
// torchrun takes that without a word, and nodes may have different numbers.
func (a *agent) noteNoWorker(flag string, s logs.StdSpec) {
	if s.Any(math.MaxInt) && !s.Any(a.node.Workers) && !a.opts.quiet() {
		a.console.say("%s %s has no effect on this node: its local ranks are below %d", flag, s, a.node.Workers)
	}
}
