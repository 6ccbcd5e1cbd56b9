package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestEvents compares lines with what torch 2.11 wrote.
func TestEvents(t *testing.T) {
	errorFile := filepath.Join(t.TempDir(), "error.json")
	if err := os.WriteFile(errorFile, []byte(`{"message": {"message": "ValueError: b\u00e4\"d\n<x>", "extraInfo": {"timestamp": "1795445538"}}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	took := 165484587 * time.Nanosecond
	one := &EventGroup{Rank: 0, Size: 1}
	for name, c := range map[string]struct {
		event Event
		want  string
	}{
		"rendezvous": {
			Event{State: EventRendezvous, Took: &took},
			`{"name": "torchelastic.worker.status.RENDEZVOUS", "source": "AGENT", "timestamp": 0, "metadata": {"run_id": "none", "global_rank": null, "group_rank": null, "worker_id": null, "role": "default", "hostname": "localhost", "state": "RENDEZVOUS", "total_run_time": 0, "rdzv_backend": "static", "raw_error": null, "metadata": "{\"group_world_size\": null, \"entry_point\": \"python\"}", "agent_restarts": 0, "duration_ms": 165.484587}}`,
		},
		"start": {
			Event{State: EventStart, Group: one, Restarts: 1, Worker: &EventWorker{Rank: 1, LocalRank: 1, RoleRank: 1, RoleSize: 2, PID: 642}},
			`{"name": "torchelastic.worker.status.START", "source": "WORKER", "timestamp": 0, "metadata": {"run_id": "none", "global_rank": 1, "group_rank": 0, "worker_id": "642", "role": "default", "hostname": "localhost", "state": "START", "total_run_time": 0, "rdzv_backend": "static", "raw_error": null, "metadata": "{\"group_world_size\": 1, \"entry_point\": \"python\", \"local_rank\": [1], \"role_rank\": [1], \"role_world_size\": [2], \"exit_code\": [null], \"worker_pid\": [null]}", "agent_restarts": 1, "duration_ms": null}}`,
		},
		"failed": {
			Event{State: EventFailed, Group: one, RunTime: 2900 * time.Millisecond, Worker: &EventWorker{Rank: 1, LocalRank: 1, RoleRank: 1, RoleSize: 3, PID: 611, Failure: &EventFailure{ExitCode: 1, ErrorFile: errorFile}}},
			`{"name": "torchelastic.worker.status.FAILED", "source": "WORKER", "timestamp": 0, "metadata": {"run_id": "none", "global_rank": 1, "group_rank": 0, "worker_id": "611", "role": "default", "hostname": "localhost", "state": "FAILED", "total_run_time": 2, "rdzv_backend": "static", "raw_error": "{\"message\": {\"message\": \"ValueError: b\\u00e4\\\"d\\n<x>\", \"extraInfo\": {\"timestamp\": \"1795445538\"}}}", "metadata": "{\"group_world_size\": 1, \"entry_point\": \"python\", \"local_rank\": [1], \"role_rank\": [1], \"role_world_size\": [3], \"exit_code\": [1], \"worker_pid\": [611]}", "agent_restarts": 0, "duration_ms": null}}`,
		},
		"no file": {
			Event{State: EventFailed, Group: one, Worker: &EventWorker{RoleSize: 3, PID: 612, Failure: &EventFailure{ExitCode: 3}}},
			`{"name": "torchelastic.worker.status.FAILED", "source": "WORKER", "timestamp": 0, "metadata": {"run_id": "none", "global_rank": 0, "group_rank": 0, "worker_id": "612", "role": "default", "hostname": "localhost", "state": "FAILED", "total_run_time": 0, "rdzv_backend": "static", "raw_error": "{\"message\": \"<NONE>\", \"errorTraits\": {\"category\": \"system_terminated_error\", \"retryability\": \"False\"}}", "metadata": "{\"group_world_size\": 1, \"entry_point\": \"python\", \"local_rank\": [0], \"role_rank\": [0], \"role_world_size\": [3], \"exit_code\": [3], \"worker_pid\": [612]}", "agent_restarts": 0, "duration_ms": null}}`,
		},
		"agent": {
			Event{State: EventFailed, Group: one, Error: "Process 674 got signal: 15\n"},
			`{"name": "torchelastic.worker.status.FAILED", "source": "AGENT", "timestamp": 0, "metadata": {"run_id": "none", "global_rank": null, "group_rank": 0, "worker_id": null, "role": "default", "hostname": "localhost", "state": "FAILED", "total_run_time": 0, "rdzv_backend": "static", "raw_error": "Process 674 got signal: 15\n", "metadata": "{\"group_world_size\": 1, \"entry_point\": \"python\"}", "agent_restarts": 0, "duration_ms": null}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			l := EventLog{Out: &out, RunID: "none", Role: "default", Host: "localhost", Backend: "static", Entrypoint: "python"}
			l.Write(c.event)
			if got := out.String(); got != c.want+"\n" {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

func TestPythonJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":[1,2.50,null],"b,c":"x:y, \"q\\\": z"}`: `{"a": [1, 2.50, null], "b,c": "x:y, \"q\\\": z"}`,
		`"ä 😀 \u2028 <&>` + "\x7f\"":                  `"\u00e4 \ud83d\ude00 \u2028 <&>\u007f"`,
		`"` + "\u0085\xff" + `"`:                      `"\u0085\ufffd"`,
	} {
		if got := pythonJSON(json.RawMessage(in)); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}
