package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// playWorld is a worker that notes its world, and the workers of other worlds that are
// alive when it starts. It ends with 0 when the job's folder has a file go, and with 5
// when there is a file fail.<rank>, which it removes. With a file stubborn there, it
// ignores SIGTERM.
const playWorld = "world"

// workerNote is a worker's place in a world, written by the worker.
type workerNote struct {
	Round, Restart, Rank, Size int
	Token, Node                string
	PID                        int
	Time                       time.Time
}

// overlap is a worker of another world that was alive when one started.
type overlap struct{ New, Old workerNote }

func recordWorld() int {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	dir := os.Getenv(envDir)
	number := func(name string) int {
		n, _ := strconv.Atoi(os.Getenv(name))
		return n
	}
	s := workerNote{
		Round: number("GORUN_ROUND"), Restart: number("TORCHELASTIC_RESTART_COUNT"), Rank: number("RANK"), Size: number("WORLD_SIZE"),
		Token: os.Getenv("GORUN_WORLD_TOKEN"), Node: os.Getenv("GORUN_NODE_ADDR"), PID: os.Getpid(), Time: time.Now(),
	}
	// It first writes its note and then reads the others', so that of two workers that
	// start at the same time at least one sees the other.
	if err := writeNote(dir, fmt.Sprint("seat.", s.PID), s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, o := range readNotes[workerNote](dir, "seat.*") {
		if o.Token != s.Token && o.isAlive() {
			if err := writeNote(dir, fmt.Sprintf("overlap.%d.%d", s.PID, o.PID), overlap{s, o}); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
	}
	fmt.Printf("round %d rank %d of %d restart %d on %s, world %s\n", s.Round, s.Rank, s.Size, s.Restart, s.Node, s.Token)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-term:
			if _, err := os.Stat(filepath.Join(dir, "stubborn")); err != nil {
				s.Time = time.Now()
				_ = writeNote(dir, fmt.Sprint("stopped.", s.PID), s)
				return 0
			}
		case <-tick.C:
			if _, err := os.Stat(filepath.Join(dir, "go")); err == nil {
				return 0
			}
			if os.Remove(filepath.Join(dir, fmt.Sprint("fail.", s.Rank))) == nil {
				return 5
			}
		}
	}
}

// isAlive reports whether the worker's process runs or is stopped.
func (s workerNote) isAlive() bool {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.PID))
	if err != nil || !hasToken(environ, "GORUN_WORLD_TOKEN="+s.Token) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.PID))
	if err != nil {
		return false
	}
	state := strings.TrimSpace(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return state != "" && state[0] != 'Z' && state[0] != 'X'
}

func (o overlap) String() string {
	return fmt.Sprintf("rank %d of round %d (world %s, %s) started while rank %d of round %d (world %s, %s, pid %d) was alive",
		o.New.Rank, o.New.Round, o.New.Token, o.New.Node, o.Old.Rank, o.Old.Round, o.Old.Token, o.Old.Node, o.Old.PID)
}

// writeNote writes a file atomically.
func writeNote(dir, name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, fmt.Sprintf("new.%s", name))
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, name))
}

// readNotes reads what workers wrote.
func readNotes[T any](dir, pattern string) []T {
	files, _ := filepath.Glob(filepath.Join(dir, pattern))
	var out []T
	for _, f := range files {
		b, err := os.ReadFile(f)
		var v T
		if err == nil && json.Unmarshal(b, &v) == nil {
			out = append(out, v)
		}
	}
	return out
}

// world makes the arguments of a worker that runs playWorld.
func (j *job) world() []string {
	j.Helper()
	self, err := os.Executable()
	if err != nil {
		j.Fatal(err)
	}
	return []string{self, playFlag, playWorld}
}

// checkNoOverlap asserts that no worker of one world was alive when a worker of another world
// started, and that the workers of each world agree about their world.
func (j *job) checkNoOverlap() {
	j.Helper()
	for _, o := range readNotes[overlap](j.dir, "overlap.*") {
		j.Errorf("%v", o)
	}
	j.checkWorldsAgree()
}

// checkWorldsAgree asserts that the workers of each world agree about its round and size.
func (j *job) checkWorldsAgree() {
	j.Helper()
	worlds := map[string]workerNote{}
	taken := map[string]int{}
	for _, s := range readNotes[workerNote](j.dir, "seat.*") {
		if w, ok := worlds[s.Token]; ok && (w.Round != s.Round || w.Size != s.Size || w.Restart != s.Restart) {
			j.Errorf("workers of one world disagree about it: %+v and %+v", w, s)
		}
		worlds[s.Token] = s
		place := fmt.Sprintf("%s/%d", s.Token, s.Rank)
		if pid, ok := taken[place]; ok {
			j.Errorf("world %s has rank %d twice: pids %d and %d", s.Token, s.Rank, pid, s.PID)
		}
		taken[place] = s.PID
	}
}
