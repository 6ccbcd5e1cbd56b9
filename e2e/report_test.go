package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// jsonReport has the fields that --report promises.
type jsonReport struct {
	RunID    string    `json:"run_id"`
	Started  time.Time `json:"started"`
	Ended    time.Time `json:"ended"`
	ExitCode int       `json:"exit_code"`
	Outcome  string    `json:"outcome"`
	Cause    *jsonCause
	Failures []jsonCause
	Rounds   []struct {
		Restart int
		Cause   *jsonCause
		Nodes   []struct {
			GroupRank int `json:"group_rank"`
			Host      string
			Addr      string
			Ranks     []struct {
				Rank      int
				LocalRank int `json:"local_rank"`
				PID       int
				ExitCode  int `json:"exit_code"`
				Signal    int
				Started   time.Time
				Ended     time.Time
			}
		}
	}
}

type jsonCause struct {
	Kind      string
	Node      string
	Host      string
	Addr      string
	GroupRank int `json:"group_rank"`
	Rank      int
	LocalRank int `json:"local_rank"`
	PID       int
	ExitCode  int `json:"exit_code"`
	Signal    int
	Message   string
	Traceback string
	Tail      []string `json:"stderr_tail"`
	Time      time.Time
}

// report reads a file of --report.
func (j *job) report(name string) jsonReport {
	j.Helper()
	b, err := os.ReadFile(filepath.Join(j.dir, name))
	if err != nil {
		j.Fatal(err)
	}
	var r jsonReport
	if err := json.Unmarshal(b, &r); err != nil {
		j.Fatalf("%v in %s", err, b)
	}
	if r.RunID == "" || r.Started.IsZero() || r.Ended.Before(r.Started) || r.Failures == nil || r.Rounds == nil {
		j.Errorf("fields are missing in %s", b)
	}
	return r
}

// runWithReports runs two nodes of two workers, each with a report.
func (j *job) runWithReports(code int, program []string) []jsonReport {
	j.Helper()
	for i := range 2 {
		j.node(i+1, "2", with(program, "--nproc-per-node", "2", "--report", fmt.Sprint(j.dir, "/report.", i))...)
	}
	j.wantExit(longWait, code, j.agents...)
	var out []jsonReport
	for i := range 2 {
		r := j.report(fmt.Sprint("report.", i))
		if r.ExitCode != code || r.RunID != j.id {
			j.Errorf("exit code %d, run %q in the report of %s", r.ExitCode, r.RunID, j.agents[i].name)
		}
		out = append(out, r)
	}
	return out
}

func TestReportOfSuccess(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	for i, r := range j.runWithReports(0, sh("exit 0")) {
		if r.Outcome != "succeeded" || r.Cause != nil || len(r.Failures) != 0 || len(r.Rounds) != 1 || len(r.Rounds[0].Nodes) != 2 {
			t.Fatalf("report %d: %+v", i, r)
		}
		for g, n := range r.Rounds[0].Nodes {
			if n.GroupRank != g || n.Addr != fmt.Sprintf("127.0.0.%d", g+1) || n.Host == "" || len(n.Ranks) != 2 {
				t.Fatalf("report %d: node %+v", i, n)
			}
			for l, rank := range n.Ranks {
				if rank.Rank != 2*g+l || rank.LocalRank != l || rank.PID == 0 || rank.ExitCode != 0 ||
					rank.Started.IsZero() || rank.Ended.Before(rank.Started) {
					t.Errorf("report %d: rank %+v", i, rank)
				}
			}
		}
	}
}

func TestReportOfFailure(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--max-restarts", "1")
	for i, r := range j.runWithReports(3, onRank("2", "echo the last words >&2; exit 3")) {
		if r.Outcome != "failed" || r.Cause == nil || len(r.Failures) == 0 || len(r.Rounds) != 2 || r.Rounds[1].Restart != 1 {
			t.Fatalf("report %d: %+v", i, r)
		}
		c := *r.Cause
		if c.Kind != "exit" || c.Rank != 2 || c.LocalRank != 0 || c.GroupRank != 1 || c.ExitCode != 3 || c.PID == 0 ||
			c.Addr != "127.0.0.2" || c.Time.IsZero() || strings.Join(c.Tail, "") != "the last words" {
			t.Errorf("report %d: cause %+v", i, c)
		}
		for _, round := range r.Rounds {
			if rank := round.Nodes[1].Ranks[0]; rank.ExitCode != 3 {
				t.Errorf("report %d: rank 2 is %+v", i, rank)
			}
			if rank := round.Nodes[0].Ranks[1]; rank.Signal != 15 || rank.ExitCode != 143 {
				t.Errorf("report %d: rank 1, which gorun ended, is %+v", i, rank)
			}
		}
	}
}

func TestReportOfRendezvousFailure(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--rdzv-conf", "join_timeout=1")
	a := j.node(1, "2", with(sh("exit 0"), "--report", j.dir+"/report")...)
	j.wantExit(longWait, 75, a)
	r := j.report("report")
	if r.Outcome != "rendezvous" || r.ExitCode != 75 || r.Cause == nil || r.Cause.Kind != "rendezvous" || r.Cause.ExitCode != 75 || !strings.Contains(r.Cause.Message, "1 of 2 nodes") {
		t.Errorf("%+v", r)
	}
}

func TestReportOfStop(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	a := j.run("alone", with(sh(printRankForever), "--report", j.dir+"/report")...)
	a.waitForStdout("up", 1)
	a.signal(15)
	j.wantExit(shortWait, 143, a)
	if r := j.report("report"); r.Outcome != "stopped" || r.Cause == nil || r.Cause.Kind != "stopped" || r.Cause.Signal != 15 || r.Cause.ExitCode != 143 {
		t.Errorf("%+v", r)
	}
}

// TestReportCannotBeWritten checks that if the report's folder does not exist, gorun
// says so before the job. If the report cannot be written, gorun says so after the job,
// and the exit code stays.
func TestReportCannotBeWritten(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	early := j.run("early", with(sh("exit 4"), "--report", j.dir+"/no/such/folder")...)
	j.wantExit(shortWait, 2, early)
	early.waitForStderr("there is no folder")
	folder := j.run("folder", with(sh("exit 4"), "--report", j.dir)...)
	j.wantExit(shortWait, 2, folder)
	folder.waitForStderr("it is a folder")
	late := j.run("late", with(sh("exit 4"), "--report", "/dev/full")...)
	j.wantExit(shortWait, 4, late)
	late.waitForStderr("cannot write the report of --report")
}

// TestReportTimeOfErrorFile checks that every node shows the time of the error file that
// a worker wrote. gorun ignores an impossible time.
func TestReportTimeOfErrorFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"1605774851"`:  time.Unix(1605774851, 0).Format("2006-01-02_15:04:05"),
		`1605774851`:    time.Unix(1605774851, 0).Format("2006-01-02_15:04:05"),
		`253402300799`:  time.Unix(253402300799, 0).Format("2006-01-02_15:04:05"), // the end of the year 9999
		`1e400`:         time.Now().Format("2006-01-"),
		`"next Monday"`: time.Now().Format("2006-01-"),
	} {
		j := newJob(t)
		agents := j.nodes(2, onRank("1", `echo '{"message": {"message": "E: x", "extraInfo": {"timestamp": `+text+`}}}' >$TORCHELASTIC_ERROR_FILE; exit 6`)...)
		j.wantExit(longWait, 6, agents...)
		for _, a := range agents {
			a.waitForStderr("  time      : " + want)
		}
	}
}
