package spec

import (
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestTorchrunsFlags checks what the flags mean that only exist because torchrun has
// them, with their variables.
func TestTorchrunsFlags(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags flags
		env   env
		want  func(*Spec)
	}{
		{"accepted", flags{"monitor_interval": " 1e-3", "start_method": "fork", "logs_specs": "default", "event_log_handler": "dynamic_rendezvous"}, nil, func(*Spec) {}},
		{"run path", flags{"run_path": "1", "no_python": "1", "module": "1"}, nil, func(s *Spec) { s.RunPath, s.NoPython, s.Module = true, true, true }},
		{
			"another method",
			flags{"run_path": "1", "start_method": "fork"},
			nil,
			func(s *Spec) {
				s.RunPath = true
				s.Notes = []string{"--start-method fork has no effect: gorun starts each worker as a new process, as spawn does"}
			},
		},
		{"events", nil, env{"PET_EVENT_LOG_HANDLER": "console"}, func(s *Spec) { s.Events = ConsoleEvents }},
		{"prefix by torch's variable", nil, env{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "[${rank}] "}, func(s *Spec) { s.Console.LinePrefix = "[${rank}] " }},
		{
			"prefix",
			flags{"log_line_prefix_template": "a"},
			env{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "b", "PET_LOG_LINE_PREFIX_TEMPLATE": "c"},
			func(s *Spec) { s.Console.LinePrefix = "a" },
		},
		{"local ranks", flags{"local_ranks_filter": "0, 2"}, nil, func(s *Spec) { s.Console.LocalRanks = []int{0, 2} }},
		{
			"filters",
			flags{"duplicate_stdout_filters": "loss,a,,b,", "duplicate_stderr_filters": "x"},
			nil,
			func(s *Spec) { s.Filters = Filters{Stdout: []string{"loss", "a,b"}, Stderr: []string{"x"}} },
		},
		{"signals", flags{"signals_to_handle": "SIGUSR1, SIGTERM,SIGUSR1"}, nil, func(s *Spec) { s.Signals = []syscall.Signal{syscall.SIGUSR1, syscall.SIGTERM} }},
		{
			"signals by torch's variable", nil,
			env{"TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGUSR2"},
			func(s *Spec) { s.Signals = []syscall.Signal{syscall.SIGUSR2} },
		},
		{
			"no signal",
			flags{"signals_to_handle": "SIGINT,SIGNOPE,SIGKILL"},
			nil,
			func(s *Spec) {
				s.Signals = []syscall.Signal{syscall.SIGINT}
				s.Notes = []string{
					"--signals-to-handle: Failed to register signal handler for SIGNOPE: gorun can handle no signal of that name",
					"--signals-to-handle: Failed to register signal handler for SIGKILL: gorun can handle no signal of that name",
				}
			},
		},
		{
			"variables without effect", nil,
			env{"PET_MONITOR_INTERVAL": "5", "PET_START_METHOD": "spawn", "PET_LOGS_SPECS": "x", "PET_NPROC": "4", "PET_ROLE": "r", "NPROC": "3"},
			func(s *Spec) {
				s.Role = "r"
				s.Notes = []string{
					"PET_MONITOR_INTERVAL=5 has no effect: gorun sees the end of a worker at once",
					"PET_START_METHOD spawn has no effect: gorun starts each worker as a new process, as spawn does",
					"PET_LOGS_SPECS has no effect, as under torchrun: give --logs-specs",
					"PET_NPROC has no effect: torchrun has no flag --nproc",
				}
			},
		},
	} {
		want := defaults()
		c.want(&want)
		raw := Raw{Flags: c.flags, Command: []string{"train.py", "--lr", "1"}}
		for name := range c.env {
			raw.Environ = append(raw.Environ, name)
		}
		got, err := raw.Resolve(func(name string) (string, bool) { v, ok := c.env[name]; return v, ok })
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\ngot  %+v\nwant %+v", c.name, err, got, want)
		}
	}
}

// TestTorchBackend checks the names that torchrun has for how the nodes meet.
func TestTorchBackend(t *testing.T) {
	for want, all := range map[string][]flags{
		"static": {{}, {"rdzv_endpoint": "localhost:29500"}, {"nnodes": "2", "master_addr": "10.0.0.1", "node_rank": "0"}},
		"c10d":   {{"standalone": "1"}, {"rdzv_backend": "c10d"}, {"rdzv_backend": "c10d", "nnodes": "2", "rdzv_endpoint": "h"}},
		"etcd":   {{"rdzv_backend": "etcd-v2", "rdzv_endpoint": "h:2379", "rdzv_id": "j"}},
	} {
		for _, f := range all {
			if s, err := resolve(f, nil); err != nil || s.TorchBackend() != want {
				t.Errorf("%v: %q, %v, want %q", f, s.TorchBackend(), err, want)
			}
		}
	}
}

// TestLaunch checks when gorun launch gives programs their local rank.
func TestLaunch(t *testing.T) {
	for _, c := range []struct {
		flags flags
		want  bool
		err   string
	}{
		{nil, true, ""},
		{flags{"use_env": "1"}, false, ""},
		{flags{"no_python": "1"}, false, "you must also set the '--use_env' flag"},
		{flags{"no_python": "1", "use_env": "1"}, false, ""},
	} {
		s, err := Raw{Flags: c.flags, Launch: true, Command: []string{"x"}}.Resolve(func(string) (string, bool) { return "", false })
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || s.LocalRankArg != c.want {
			t.Errorf("%v: %v, %v, want %v and %q", c.flags, s.LocalRankArg, err, c.want, c.err)
		}
	}
}

// TestWrongTypes checks that a value of another type gets argparse's line.
func TestWrongTypes(t *testing.T) {
	for _, c := range []struct {
		flags flags
		env   env
		want  string
	}{
		{flags{"max_restarts": "x"}, nil, "error: argument --max-restarts/--max_restarts: invalid int value: 'x'"},
		{nil, env{"PET_NODE_RANK": "1.5"}, "error: argument --node-rank/--node_rank: invalid int value: '1.5' (from PET_NODE_RANK)"},
		{flags{"master_port": ""}, nil, "error: argument --master-port/--master_port: invalid int value: ''"},
		{flags{"monitor_interval": "often"}, nil, "error: argument --monitor-interval/--monitor_interval: invalid float value: 'often'"},
		{flags{"monitor_interval": "0"}, nil, "--monitor-interval is 0: it must be above 0"},
		{flags{"monitor_interval": "nan"}, nil, "--monitor-interval is nan: it must be above 0"},
		{flags{"start_method": "thread"}, nil, "error: argument --start-method/--start_method: invalid choice: 'thread' (choose from 'spawn', 'fork', 'forkserver')"},
		{flags{"local_ranks_filter": "0,x"}, nil, `cannot use --local-ranks-filter "0,x": --local-ranks-filter/--local_ranks_filter must be a comma-separated list of integers e.g. --local-ranks-filter=0,1,2`},
		{flags{"logs_specs": "mine"}, nil, `cannot use --logs-specs mine: Could not find entrypoint under 'torchrun.logs_specs[mine]' key; gorun has no plugins and only "default"`},
		{flags{"event_log_handler": "mine"}, nil, `cannot use --event-log-handler "mine": the event log handlers are null and console`},
	} {
		if _, err := resolve(c.flags, c.env); err == nil || err.Error() != c.want {
			t.Errorf("%v %v: %v, want %s", c.flags, c.env, err, c.want)
		}
	}
}

// FuzzFilters checks that each text of a filter can be written, and none is empty.
func FuzzFilters(f *testing.F) {
	f.Add("a,b", "c,,d")
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == "" || b == "" || strings.ContainsAny(a+b, "\x00") || strings.HasPrefix(b, ",") || strings.HasSuffix(a, ",") {
			t.Skip()
		}
		escape := func(s string) string { return strings.ReplaceAll(s, ",", ",,") }
		in := &input{raw: Raw{Flags: flags{"x": escape(a) + "," + escape(b)}}, lookup: func(string) (string, bool) { return "", false }}
		if got := in.filters("x"); !slices.Equal(got, []string{a, b}) {
			t.Errorf("%q, want %q and %q", got, a, b)
		}
	})
}
