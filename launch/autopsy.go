package launch

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/launch/diagnose"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/report"
	"github.com/gorun/gorun/rendezvous"
)

// startCode is what a shell returns for a program that cannot be started.
func startCode(err error) int {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return 127
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.ENOEXEC):
		return 126
	}
	return 1
}

// peerWait is how long the end of a worker may take that has closed its connections.
const peerWait = time.Second

// ended: a worker's process is gone.
func (w *workers) ended(wk *worker) {
	exit := wk.proc.Exit()
	w.mu.Lock()
	w.left--
	ours := !w.stopped.IsZero() && exit.At.After(w.stopped)
	w.mu.Unlock()
	if !exit.Success() {
		if !ours {
			w.fail(w.autopsy(wk, exit))
		}
		return
	}
	w.maybeDone()
}

// autopsy finds out why a worker failed.
func (w *workers) autopsy(wk *worker, exit process.Exit) rendezvous.Cause {
	kind := rendezvous.KindExit
	if exit.Signal != 0 {
		kind = rendezvous.KindSignal
	}
	c := w.cause(kind, wk)
	c.ExitCode, c.Signal, c.Time = max(0, exit.Code), exit.Signal, exit.At
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_ = wk.out.Drain(ctx)
	c.Tail, c.Logs, c.Interpreter = wk.out.Tail(), wk.out.Files(), w.cfg.program.Interpreter
	c.Consequence = diagnose.IsConsequence(c.Tail)
	if text := w.cfg.socket.lastWords(ctx, c.Rank); text != "" && exit.Signal == 0 {
		c.Kind, c.ExitCode, c.Message, c.Consequence = rendezvous.KindReport, 1, text, false
		return c
	}
	if f, err := report.ReadErrorFile(wk.out.ErrorFile); err == nil {
		c.ErrorFile, c.Message, c.Traceback, c.Told = wk.out.ErrorFile, f.Message, f.Traceback, f.Time.UTC() // JSON knows no year 10000, as a zone might have it
		if len(c.Tail) == 0 {
			c.Consequence = diagnose.IsConsequence(strings.Split(f.Traceback, "\n"))
		}
	}
	return c
}

// cause is a Cause with its place filled in.
func (w *workers) cause(k rendezvous.Kind, wk *worker) rendezvous.Cause {
	m := w.world.Members[w.group]
	c := rendezvous.Cause{
		Kind: k, Node: w.cfg.node, Host: w.cfg.host, Addr: w.cfg.addr, GroupRank: w.group,
		Rank: -1, LocalRank: -1, Role: m.Role, Time: time.Now(),
	}
	if wk != nil {
		c.Rank, c.LocalRank = wk.rank, wk.local
		if wk.proc != nil {
			c.PID = wk.proc.Pid()
		}
	}
	return c
}

// fail notes a failure and posts the first one. The failure of a worker that fell
// over because a peer was gone waits for the peer's: a process closes its
// connections before it has ended, and Python takes its time for the rest.
func (w *workers) fail(c rendezvous.Cause) {
	w.mu.Lock()
	w.failed = true
	for _, wk := range w.list {
		if wk.rank == c.Rank && wk.cause == nil {
			wk.cause = &c
		}
	}
	w.mu.Unlock()
	if c.Consequence {
		select {
		case <-time.After(peerWait):
		case <-w.halt: // Over tells of it
			return
		}
	}
	w.mu.Lock()
	first := !w.told
	w.told = true
	w.mu.Unlock()
	if first {
		w.cfg.post(rendezvous.Failed{Round: w.world.Round, Cause: c})
	}
}

// reported: the worker of that rank says through the socket that it failed.
func (w *workers) reported(rank int, message string) {
	w.mu.Lock()
	var who *worker
	for _, wk := range w.list {
		if wk.rank == rank {
			who = wk
		}
	}
	w.mu.Unlock()
	if who == nil {
		return
	}
	c := w.cause(rendezvous.KindReport, who)
	c.ExitCode, c.Message = 1, message
	c.Tail, c.Logs = who.out.Tail(), who.out.Files()
	w.fail(c)
}
