// Package metrics answers a cluster's questions about an agent over HTTP: /healthz (the
// agent lives), /readyz (its workers run) and /metrics (a few gauges of the job in
// Prometheus' text format).
//
// Invariants: an answer comes from the agent's own memory and has nothing of workers,
// nodes or variables; no request reaches a worker or another node. Requests have no
// effect. Connections are counted by the agent's Pool and have a deadline, and a
// connection serves one request.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/accept"
)

// State is what an agent knows of its job.
type State struct {
	Phase     string // one of Phases
	Ready     bool   // workers run on this node
	Round     int    // of the last world; -1: there was none
	Restarts  int    // so far
	WorldSize int    // workers of the last world
	Nodes     int    // nodes of the last world
}

// Phases are the values of State.Phase, in the order in which a job goes through them.
func Phases() []string {
	return []string{"starting", "forming", "checking", "accepting", "sealing", "running", "stopping", "recovering", "seeking", "ending"}
}

// answerTime bounds the wait for the agent's loop.
const answerTime = 2 * time.Second

// Server answers requests.
type Server struct {
	Pool *accept.Pool // counts the connections
	// Ask returns the state, or false if the agent did not say it before ctx ended.
	Ask func(ctx context.Context) (State, bool)
}

// Serve answers requests at a listener until ctx ends, and closes it.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 2 * time.Second, ReadTimeout: 4 * time.Second, WriteTimeout: 4 * time.Second,
		MaxHeaderBytes: 8 << 10, ErrorLog: log.New(io.Discard, "", 0), // strangers cause its lines
	}
	server.SetKeepAlivesEnabled(false)
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(s.Pool.Listen(l)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cannot answer at --metrics-addr any more: %w", err)
	}
	return nil
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		state, ok := s.ask(r)
		answer(w, ok, state.Phase)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		state, ok := s.ask(r)
		answer(w, ok && state.Ready, state.Phase)
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		state, ok := s.ask(r)
		if !ok {
			answer(w, false, "")
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = io.WriteString(w, Text(state))
	})
	return mux
}

func (s *Server) ask(r *http.Request) (State, bool) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	return s.Ask(ctx)
}

// answer says whether all is well, and the phase of the job.
func answer(w http.ResponseWriter, ok bool, phase string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if phase == "" {
		phase = "the agent does not answer"
	}
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = io.WriteString(w, phase+"\n")
}

// Text returns the state in Prometheus' text format.
func Text(s State) string {
	var b strings.Builder
	gauge := func(name, help string, value int) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n%s %d\n", name, help, name, name, value)
	}
	gauge("gorun_round", "Round of the last world, -1 before the first one.", s.Round)
	gauge("gorun_restarts", "Restarts of the job so far.", s.Restarts)
	gauge("gorun_world_size", "Workers of the last world.", s.WorldSize)
	gauge("gorun_nodes", "Nodes of the last world.", s.Nodes)
	ready := 0
	if s.Ready {
		ready = 1
	}
	gauge("gorun_ready", "1 while workers run on this node.", ready)
	b.WriteString("# HELP gorun_phase 1 for the phase of the job.\n# TYPE gorun_phase gauge\n")
	for _, phase := range Phases() {
		on := 0
		if phase == s.Phase {
			on = 1
		}
		fmt.Fprintf(&b, "gorun_phase{phase=%q} %d\n", phase, on)
	}
	return b.String()
}
