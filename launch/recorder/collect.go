package recorder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/gorun/gorun/launch/flight"
	"golang.org/x/sys/unix"
)

// pollInterval is how often Collect looks whether a dump is there.
const pollInterval = 50 * time.Millisecond

// ownDumpTime is how long a new dump has where torch has written one by itself.
const ownDumpTime = 3 * time.Second

// Bounds of a dump. One of 2,000 calls has about 1 MiB.
const (
	maxDump   = 32 << 20 // bytes
	keptCalls = 64       // of each group
)

// Target is the recorder of one rank.
type Target struct {
	Rank int
	PID  int    // 0: unknown
	pipe string // "": the rank's environment names none
	dump string
	seen stamp // of the dump that was read last, or that was there before the rank
}

// NewTarget finds a rank's recorder by the environment and the working directory with which
// the rank was started.
func NewTarget(rank int, env []string, dir string) Target {
	t := Target{Rank: rank}
	path := func(n names, end string) string {
		prefix, _ := n.lookup(env)
		if prefix == "" {
			return ""
		}
		if !filepath.IsAbs(prefix) {
			prefix = filepath.Join(dir, prefix)
		}
		return prefix + strconv.Itoa(rank) + end
	}
	t.pipe, t.dump = path(pipeNames, ".pipe"), path(dumpNames, "")
	t.seen = t.stamp()
	return t
}

// Named reports whether the rank's environment says where its recorder writes.
func (t Target) Named() bool { return t.pipe != "" && t.dump != "" }

// Collect asks the recorders of ranks for their dumps and reads them until ctx ends. It
// notes in the targets what it has read.
func Collect(ctx context.Context, targets []Target) flight.Answer {
	dumps := make([]flight.Dump, len(targets))
	errs := make([]error, len(targets))
	var reading sync.Mutex // a hostile dump takes much memory until it is read
	var wg sync.WaitGroup
	for i := range targets {
		wg.Go(func() { dumps[i], errs[i] = targets[i].ask(ctx, &reading) })
	}
	wg.Wait()
	var got []flight.Dump
	var missing []flight.Missing
	for i, t := range targets {
		if errs[i] != nil {
			missing = append(missing, flight.Missing{Rank: t.Rank, Why: errs[i].Error()})
		} else {
			got = append(got, dumps[i])
		}
	}
	return flight.NewAnswer(got, missing)
}

// ask asks one recorder and waits for its dump. torch writes a dump by itself when a call
// fails, and then looks at the pipe no more. So a dump that was never read counts, too, if
// no other one comes.
func (t *Target) ask(ctx context.Context, reading *sync.Mutex) (flight.Dump, error) {
	if !t.Named() {
		return flight.Dump{}, errors.New("its environment names no pipe and no file for the flight recorder")
	}
	before := t.stamp()
	unread := before != t.seen && before != stamp{}
	read := func() (flight.Dump, error) {
		reading.Lock()
		defer reading.Unlock()
		at := t.stamp()
		d, err := t.read()
		if err == nil {
			t.seen = at
		}
		return d, err
	}
	err := poke(t.pipe)
	if err == nil && t.isStopped() {
		err = errors.New("its process is stopped, by SIGSTOP or a debugger")
	}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	own := time.NewTimer(ownDumpTime)
	defer own.Stop()
	var readErr error
	for err == nil {
		select {
		case <-ctx.Done():
			if err = errors.New("its flight recorder wrote no dump in time: its interpreter's lock may be held"); readErr != nil {
				err = fmt.Errorf("its dump cannot be read: %w", readErr)
			}
			continue
		case <-own.C:
			if unread {
				return read()
			}
			continue
		case <-tick.C:
		}
		if now := t.stamp(); now == (stamp{}) || now == before {
			continue
		}
		var d flight.Dump
		if d, readErr = read(); readErr == nil { // else it may not be whole yet
			return d, nil
		}
	}
	if unread {
		return read()
	}
	return flight.Dump{}, err
}

// isStopped reports whether the rank's process does not run: its dump would never come.
func (t *Target) isStopped() bool {
	if t.PID <= 0 {
		return false
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", t.PID))
	if err != nil {
		return false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	return len(fields) > 0 && (fields[0][0] == 'T' || fields[0][0] == 't')
}

// stamp tells two versions of a file apart.
type stamp struct {
	inode, size uint64
	sec, nsec   int64
}

// stamp returns that of the dump; zero: there is none.
func (t Target) stamp() stamp {
	var s unix.Stat_t
	if unix.Lstat(t.dump, &s) != nil {
		return stamp{}
	}
	return stamp{s.Ino, uint64(s.Size), int64(s.Mtim.Sec), int64(s.Mtim.Nsec)}
}

// poke writes one byte into a pipe. It never waits.
func poke(path string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENXIO):
		return errors.New("nothing reads its pipe: its process group has ended, or the process has")
	case errors.Is(err, unix.ENOENT):
		return errors.New("it has made no pipe: it has no process group of NCCL yet")
	case err != nil:
		return fmt.Errorf("cannot open its pipe %s: %w", path, err)
	}
	defer unix.Close(fd)
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil || s.Mode&unix.S_IFMT != unix.S_IFIFO {
		return fmt.Errorf("%s is no pipe", path)
	}
	for {
		switch _, err := unix.Write(fd, []byte{'\n'}); {
		case errors.Is(err, unix.EINTR):
		case err == nil, errors.Is(err, unix.EAGAIN): // full of bytes that ask for a dump
			return nil
		case errors.Is(err, unix.EPIPE):
			return errors.New("its pipe has just been closed")
		default:
			return fmt.Errorf("cannot write to its pipe %s: %w", path, err)
		}
	}
}

// read reads the dump. The file may be of any kind and content.
func (t Target) read() (flight.Dump, error) {
	f, err := os.OpenFile(t.dump, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return flight.Dump{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return flight.Dump{}, err
	}
	if !info.Mode().IsRegular() {
		return flight.Dump{}, &fs.PathError{Op: "read", Path: t.dump, Err: errors.New("it is no regular file")}
	}
	d, err := flight.Read(t.dump, io.LimitReader(f, maxDump))
	d = d.Tail(keptCalls)
	d.Age(time.Now())
	return d, err
}
