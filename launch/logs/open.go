package logs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// WorkerOptions says where one worker's output goes.
type WorkerOptions struct {
	LocalRank int
	// Dir is the round's folder (Folders.Make); "": keep no files.
	Dir string
	// Redirect names the streams that go to a file and not to the console, Tee
	// those that go to both. Tee wins. Without Dir, redirected output is
	// dropped, and output of Tee is only shown.
	Redirect, Tee Std
	// Prefix is written before every line that Tee shows and Filter keeps.
	Prefix string
	// Filter copies lines to files that the node's workers share.
	Filter Filter
	// Console is where output is shown; nil: nowhere.
	Console *Console
	// OnLoss, if set, is called once for each file of Tee that cannot be written,
	// with its path. Later output is only shown. The worker itself writes the files
	// of Redirect.
	OnLoss func(path string, err error)
}

// DefaultPrefix is torchrun's template of a line's prefix. No space follows it.
const DefaultPrefix = "[${role_name}${local_rank}]:"

// Open opens the files, pipes and terminals for a worker's output. Nothing is copied
// before CloseChildEnds.
func Open(o WorkerOptions) (*Worker, error) {
	w := &Worker{}
	w.consoleCtx, w.giveUp = context.WithCancel(context.Background())
	err := w.open(o)
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("cannot prepare the output of local rank %d: %w", o.LocalRank, err)
	}
	return w, nil
}

func (w *Worker) open(o WorkerOptions) (err error) {
	if o.Dir != "" {
		o.Dir = filepath.Join(o.Dir, strconv.Itoa(o.LocalRank))
		if err := os.MkdirAll(o.Dir, 0o700); err != nil {
			return err
		}
		w.ErrorFile = filepath.Join(o.Dir, "error.json")
	}
	console := o.Console
	if console == nil {
		console = &Console{}
	}
	filters := len(o.Filter.Stdout)+len(o.Filter.Stderr) > 0
	if console.isOne && (o.Tee|o.Redirect)&(Stdout|Stderr) == 0 && !filters {
		// One pipe for both keeps the order in which the worker writes to them.
		w.Stderr, err = w.openStd(o, Stderr, "stderr.log", console.stderr)
		w.Stdout = w.Stderr
		return err
	}
	if w.Stdout, err = w.openStd(o, Stdout, "stdout.log", console.stdout); err != nil {
		return err
	}
	w.Stderr, err = w.openStd(o, Stderr, "stderr.log", console.stderr)
	return err
}

// openStd returns the child's end of one stream. o.Dir is the worker's own
// folder. to is the console's stream, nil if there is none.
func (w *Worker) openStd(o WorkerOptions, std Std, name string, to *sink) (*os.File, error) {
	tee := o.Tee&std != 0
	redirect := o.Redirect&std != 0 && !tee
	texts := o.Filter.of(std)
	filter := len(texts) > 0 && o.Dir != ""
	switch {
	case filter: // all of it passes through gorun
	case redirect && o.Dir != "":
		// The child writes the file itself, so there is nothing to copy.
		return w.openChildFile(std, filepath.Join(o.Dir, name))
	case std == Stdout && !tee && (redirect || to == nil):
		w.hidden = true
		f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		return w.childEnd(f, err)
	case std == Stdout && !tee:
		w.hidden = true
		return to.file, nil
	}

	s := &stream{done: make(chan struct{})}
	if std == Stderr {
		s.tail = &tail{}
		w.stderr = s
	}
	if filter {
		f, err := openFilter(filepath.Join(filepath.Dir(o.Dir), "filtered_"+name), o.Prefix, texts)
		if err != nil {
			return nil, err
		}
		s.filtered = f
	}
	if (tee || redirect && filter) && o.Dir != "" {
		path := filepath.Join(o.Dir, name)
		f, err := createLog(path)
		if err != nil {
			s.abandon()
			return nil, err
		}
		s.file, w.files = f, append(w.files, path)
		if o.OnLoss != nil {
			s.onLoss = func(err error) { o.OnLoss(path, err) }
		}
	}
	terminal := false
	switch {
	case redirect || to == nil: // only the tail is kept
	case tee:
		s.display = &lineDisplay{prefix: o.Prefix, write: func(p []byte) { _ = to.write(p, w.consoleCtx.Done()) }}
	default:
		s.display = rawDisplay{sink: to, giveUp: w.consoleCtx.Done()}
		terminal = to.terminal
	}
	return w.openStream(s, terminal, to)
}

// openStream makes the source of s and returns the child's end.
func (w *Worker) openStream(s *stream, terminal bool, to *sink) (*os.File, error) {
	var r, end *os.File
	err := errors.ErrUnsupported
	if terminal {
		// Many programs print progress bars and colours on a terminal only.
		if r, end, err = openPTY(); err == nil {
			w.pty, w.terminal = r, to.file
			w.Resize()
		}
	}
	if err != nil {
		// A container may have no /dev/ptmx. The worker then gets a pipe.
		if r, end, err = openPipe(); err != nil {
			s.abandon()
			return nil, err
		}
	}
	s.src = r
	w.streams = append(w.streams, s)
	return w.childEnd(end, nil)
}

// openChildFile creates a log file that the child writes itself.
func (w *Worker) openChildFile(std Std, path string) (*os.File, error) {
	f, err := createLog(path)
	if err == nil {
		w.files = append(w.files, path)
		if std == Stderr {
			w.stderrFile = path
		}
	}
	return w.childEnd(f, err)
}

// createLog creates a file and opens it for appending, so that several processes of
// a worker never overwrite each other's lines.
func createLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o666)
}

// childEnd records f as an end for the child, unless err is set.
func (w *Worker) childEnd(f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	w.childEnds = append(w.childEnds, f)
	return f, nil
}
