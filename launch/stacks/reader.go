package stacks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/gorun/gorun/launch/pystack"
)

// Worker is a rank's process on this node.
type Worker struct{ Rank, PID int }

// Options holds what a Reader needs.
type Options struct {
	// Workers lists the workers of this node that run.
	Workers func(ctx context.Context) []Worker
	// Ask returns the trace of a worker that links package worker. The error says that it
	// does not, or does not answer.
	Ask func(ctx context.Context, rank int) (string, error)
	// Run runs a helper program and returns what it printed.
	Run func(ctx context.Context, path string, args ...string) (string, error)
	// Find returns the path of a program, "" if it is not installed.
	Find func(name string) string
}

// Reader reads the stacks of a node's workers. Any goroutine may call its methods.
type Reader struct {
	opts    Options
	readers chan struct{} // bounds the processes that are read at one time
	helpers chan struct{} // bounds the helper programs that run at one time
}

const (
	maxReaders = 16
	maxHelpers = 2
)

// NewReader returns a reader.
func NewReader(o Options) *Reader {
	return &Reader{opts: o, readers: make(chan struct{}, maxReaders), helpers: make(chan struct{}, maxHelpers)}
}

// Question says which stacks a user wants, as the detail of a question to all nodes.
type Question struct {
	Rank *int `json:"rank,omitempty"` // nil: all
	Full bool `json:"full,omitempty"` // every frame
}

// String encodes the question.
func (q Question) String() string {
	b, err := json.Marshal(q)
	if err != nil {
		panic("stacks: a question is always JSON: " + err.Error())
	}
	return string(b)
}

// Answer answers a question about this node. Its value is encoded as a list of Stacks.
func (r *Reader) Answer(ctx context.Context, detail string) (any, error) {
	var q Question
	if detail != "" && json.Unmarshal([]byte(detail), &q) != nil {
		return nil, errors.New("the question about stacks is not readable: run the same gorun everywhere")
	}
	return fit(r.Read(ctx, q)), nil
}

// Read returns the stacks of this node's workers, in the order of the workers.
func (r *Reader) Read(ctx context.Context, q Question) []Stack {
	all := []Stack{}
	for _, w := range r.opts.Workers(ctx) {
		if q.Rank == nil || *q.Rank == w.Rank {
			all = append(all, Stack{Rank: w.Rank, PID: w.PID})
		}
	}
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			s := &all[i]
			select {
			case r.readers <- struct{}{}:
				defer func() { <-r.readers }()
				r.readStack(ctx, s)
			case <-ctx.Done():
				s.Missing = "there was no time to read it"
			}
			if !q.Full {
				s.trim(shownFrames)
			}
			s.Clean()
		})
	}
	wg.Wait()
	return all
}

// readStack fills in the stack of a worker.
func (r *Reader) readStack(ctx context.Context, s *Stack) {
	if text, err := r.opts.Ask(ctx, s.Rank); err == nil {
		s.Source, s.Frames = FromWorker, ParseGo(text)
		s.Kernel = readKernel(s.PID)
		return
	}
	tree := descendants(s.PID)
	found, why := r.readPython(ctx, s, tree)
	if !found {
		s.PID = program(tree)
		found = r.readNative(ctx, s)
	}
	s.Kernel = readKernel(s.PID)
	if !found {
		s.Source, s.Missing = FromKernel, why
	}
}

// readPython fills in the stack of the first Python process of a tree. why says for a
// process without one how it could be had.
func (r *Reader) readPython(ctx context.Context, s *Stack, tree []process) (found bool, why string) {
	for _, p := range tree {
		threads, err := pystack.Read(ctx, p.pid)
		switch {
		case errors.Is(err, pystack.ErrNotPython):
			continue
		case err == nil:
			s.PID, s.Source, s.Frames = p.pid, FromMemory, pythonFrames(threads[0])
			if waitsForProcess(s.Frames) {
				s.Helper = readHelper(ctx, below(tree, p.pid), s.Rank)
			}
			return true, ""
		case !isGone(p.pid):
			s.PID = p.pid
			if frames := r.runPySpy(ctx, p.pid); len(frames) > 0 {
				s.Source, s.Frames = FromPySpy, frames
				return true, ""
			}
			return false, err.Error()
		}
	}
	return false, "it is not Python, does not link gorun's package worker, and neither eu-stack nor gdb tells; install one of them"
}

// OwnLines returns the calls of the program itself on the stack of the first Python process
// of a tree. It returns false if there is none that can be read.
func OwnLines(ctx context.Context, root int) (string, bool) {
	for _, p := range descendants(root) {
		threads, err := pystack.Read(ctx, p.pid)
		if errors.Is(err, pystack.ErrNotPython) {
			continue
		} else if err != nil {
			return "", false
		}
		var own strings.Builder
		for _, f := range pythonFrames(threads[0]) {
			if f.Own {
				fmt.Fprintf(&own, "%d %s:%d %s\n", p.pid, f.File, f.Line, f.Func)
			}
		}
		return own.String(), true
	}
	return "", false
}

// pythonFrames converts frames.
func pythonFrames(thread pystack.Thread) []Frame {
	var all []Frame
	for _, f := range thread[:min(len(thread), maxFrames)] {
		all = append(all, Frame{Func: f.Func, File: f.File, Line: f.Line, Own: ownPython(f.File)})
	}
	return all
}

// waitsForProcess reports whether the innermost frames, before the program's own, belong
// to a library that waits for another process.
func waitsForProcess(frames []Frame) bool {
	for _, f := range frames {
		if f.Own {
			return false
		}
		if strings.HasSuffix(f.File, "/dataloader.py") || strings.HasSuffix(f.File, "/subprocess.py") ||
			strings.Contains(f.File, "/multiprocessing/") || strings.Contains(f.File, "/concurrent/futures/") {
			return true
		}
	}
	return false
}

// readHelper returns the stack of the first process of a tree that is in a function of the
// program, nil if there is none.
func readHelper(ctx context.Context, tree []process, rank int) *Stack {
	for _, p := range tree {
		threads, err := pystack.Read(ctx, p.pid)
		if err != nil {
			continue
		}
		s := Stack{Rank: rank, PID: p.pid, Source: FromMemory, Frames: sinceFork(pythonFrames(threads[0])), Kernel: readKernel(p.pid)}
		if s.innermostOwn() >= 0 && !waitsForProcess(s.Frames) {
			return &s
		}
	}
	return nil
}

// sinceFork returns the frames that a process of multiprocessing has entered since it
// began. A forked process has the frames of its parent below these.
func sinceFork(frames []Frame) []Frame {
	for i, f := range frames {
		if f.Func == "_bootstrap" && strings.HasSuffix(f.File, "/multiprocessing/process.py") {
			return frames[:i]
		}
	}
	return frames
}

// runPySpy returns what py-spy says of a process.
func (r *Reader) runPySpy(ctx context.Context, pid int) []Frame {
	text, _ := r.run(ctx, "py-spy", "dump", "--nonblocking", "--full-filenames", "--pid", itoa(pid))
	return parsePySpy(text)
}

// readNative fills in the stack of a process that is not Python, with eu-stack or gdb.
// Both stop the process for a moment, so a process that a debugger holds is left alone.
func (r *Reader) readNative(ctx context.Context, s *Stack) bool {
	if text, ok := r.run(ctx, "eu-stack", "-s", "-1", "-n", itoa(maxFrames), "-p", itoa(s.PID)); ok {
		if frames := parseEuStack(text); len(frames) > 0 {
			s.Source, s.Frames = FromEuStk, frames
			return true
		}
	}
	if text, ok := r.run(ctx, "gdb", "-nx", "-batch", "-p", itoa(s.PID), "-ex", fmt.Sprintf("thread apply 1 bt %d", maxFrames)); ok {
		if frames := parseGDB(text); len(frames) > 0 {
			s.Source, s.Frames = FromGDB, frames
			return true
		}
	}
	return false
}

// run runs a helper program if it is installed.
func (r *Reader) run(ctx context.Context, name string, args ...string) (string, bool) {
	path := r.opts.Find(name)
	if path == "" {
		return "", false
	}
	select {
	case r.helpers <- struct{}{}:
		defer func() { <-r.helpers }()
	case <-ctx.Done():
		return "", false
	}
	text, err := r.opts.Run(ctx, path, args...)
	return text, err == nil
}

// Bounds of a node's answer.
const (
	shownFrames = 24        // of a stack, unless all are asked for
	maxAnswer   = 192 << 10 // bytes
)

// trim leaves at most n frames, around the program's own innermost one.
func (s *Stack) trim(n int) {
	if len(s.Frames) <= n {
		return
	}
	start := max(0, min(s.innermostOwn()-n/2, len(s.Frames)-n))
	s.Frames = s.Frames[start : start+n]
}

// squeeze leaves the frames that Place needs.
func (s *Stack) squeeze() {
	own := s.innermostOwn()
	if own < 0 {
		s.trim(1)
		return
	}
	few := []Frame{s.Frames[own]}
	if call, _ := callOf(s.Frames[:own]); call >= 0 {
		few = []Frame{s.Frames[call], s.Frames[own]}
	}
	s.Frames = few
}

// fit cuts stacks until they have room in an answer.
func fit(all []Stack) []Stack {
	for _, cut := range []func(*Stack){
		func(*Stack) {},
		func(s *Stack) { s.squeeze(); s.Kernel.Stack, s.Helper = nil, nil },
		func(s *Stack) {
			*s = Stack{Rank: s.Rank, Missing: "the node has too many ranks to send their stacks; --rank asks for one"}
		},
	} {
		for i := range all {
			cut(&all[i])
		}
		if b, err := json.Marshal(all); err == nil && len(b) <= maxAnswer {
			break
		}
	}
	return all
}

// Decode reads a node's answer. It trusts no node: the stacks can be printed whatever the
// answer has.
func Decode(body []byte) ([]Stack, error) {
	var all []Stack
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, errors.New("its answer is not readable")
	}
	for i := range all {
		all[i].Clean()
	}
	return all, nil
}
