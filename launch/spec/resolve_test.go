package spec

import (
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/envprop"
)

// flags holds a test's command line, env its environment.
type (
	flags = map[string]string
	env   = map[string]string
)

func resolve(f flags, e env) (Spec, error) {
	return Raw{Flags: f, Command: []string{"train.py", "--lr", "1"}}.Resolve(func(name string) (string, bool) {
		v, ok := e[name]
		return v, ok
	})
}

// defaults returns the Spec of `gorun train.py --lr 1`.
func defaults() Spec {
	return Spec{
		Nodes: Nodes{MinNodes: 1, MaxNodes: 1}, Nproc: Nproc{Count: 1}, RunID: "none",
		Network: Network{Backend: Standalone, MasterPort: 29500, StoreOwner: AgentNearPort, Conf: Conf{
			JoinTimeout: 10 * time.Minute, LastCallTimeout: 30 * time.Second,
			KeepAliveInterval: time.Second, KeepAliveMaxAttempt: 10,
		}},
		End: End{
			ShutdownTimeout: 30 * time.Second, ReportOn: ReportAll, HangTimeout: DefaultHangTimeout, OnHang: OnHangReport,
			Signals: []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT},
		}, Role: "default",
		Devices: Devices{OnError: AbortOnGPUError, Release: 50 * time.Second},
		Output:  Output{Redirects: "0", Tee: "0", Events: NoEvents}, Checks: Checks{Preflight: PreflightError},
		Env: Env{Conflict: envprop.ConflictFirst}, Command: Command{Program: "train.py", Args: []string{"--lr", "1"}},
	}
}

func master(s *Spec, port int, owner StoreOwner) { s.MasterPort, s.StoreOwner = port, owner }

func gossip(s *Spec, nodes int, at ...Endpoint) {
	s.Backend, s.Endpoints, s.NodeRank = Gossip, at, -1
	s.MinNodes, s.MaxNodes, s.MasterPort, s.StoreOwner = nodes, nodes, 0, AgentAtPort
	if nodes == 1 {
		s.StoreOwner = RankZero
	}
}

func static(s *Spec, nodes, rank int, host string, port int) {
	s.Backend, s.Endpoints, s.NodeRank = Static, []Endpoint{{host, port}}, rank
	s.MinNodes, s.MaxNodes, s.MasterAddr, s.MasterPort = nodes, nodes, host, port
	s.MasterFrom, s.StoreOwner = []string{"--master-addr", "--master-port"}, AgentAtPort
}

func TestResolve(t *testing.T) {
	yes, no := true, false
	tests := []struct {
		name  string
		flags flags
		env   env
		want  func(*Spec)
	}{
		{name: "defaults", want: func(*Spec) {}},
		{
			name: "plain values", flags: flags{
				"role": "trainer", "max_restarts": "3", "rdzv_id": "j1", "log_dir": "/l",
				"redirects": "0:3,1:0", "tee": "3", "local_addr": "127.0.0.1", "report": "r.json", "port_range": "4000-4010",
				"nproc_per_node": "8", "module": "1",
			},
			want: func(s *Spec) {
				s.Role, s.MaxRestarts, s.RunID, s.LogDir, s.Redirects, s.Tee = "trainer", 3, "j1", "/l", "0:3,1:0", "3"
				s.LocalAddr, s.ReportFile, s.Ports, s.Nproc.Count, s.Module = "127.0.0.1", "r.json", PortRange{4000, 4010}, 8, true
			},
		},
		{
			name: "every PET variable", env: env{
				"PET_NNODES": "2", "PET_NPROC_PER_NODE": "auto", "PET_RDZV_BACKEND": "c10d",
				"PET_RDZV_ENDPOINT": "127.0.0.2:1", "PET_RDZV_ID": "j2", "PET_RDZV_CONF": "join_timeout=5", "PET_MAX_RESTARTS": "2",
				"PET_ROLE": "r", "PET_MODULE": "1", "PET_NO_PYTHON": "0", "PET_STANDALONE": "0", "PET_LOG_DIR": "/l", "PET_REDIRECTS": "1",
				"PET_TEE": "2", "PET_NODE_RANK": "1", "PET_LOCAL_ADDR": "127.0.0.3", "PET_SHUTDOWN_TIMEOUT": "7",
			},
			want: func(s *Spec) {
				gossip(s, 2, Endpoint{"127.0.0.2", 1})
				s.Nproc, s.RunID, s.Conf.JoinTimeout, s.MaxRestarts = Nproc{Of: "auto"}, "j2", 5*time.Second, 2
				s.Role, s.Module, s.LogDir, s.Redirects, s.Tee, s.NodeRank = "r", true, "/l", "1", "2", 1
				s.LocalAddr, s.ShutdownTimeout = "127.0.0.3", 7*time.Second
			},
		},
		{
			name: "PET master of a static job", env: env{"PET_NNODES": "2", "PET_MASTER_ADDR": "127.0.0.2", "PET_MASTER_PORT": "5", "PET_NODE_RANK": "1"},
			want: func(s *Spec) {
				static(s, 2, 1, "127.0.0.2", 5)
				s.MasterFrom = []string{"PET_MASTER_ADDR", "PET_MASTER_PORT"}
			},
		},
		{
			name: "command line wins over PET", flags: flags{"nproc_per_node": "2", "module": "0", "max_restarts": "1"},
			env:  env{"PET_NPROC_PER_NODE": "nonsense", "PET_MODULE": "1", "PET_MAX_RESTARTS": "9"},
			want: func(s *Spec) { s.Nproc.Count, s.MaxRestarts = 2, 1 },
		},
		{name: "own flags have no PET variable", env: env{"PET_LOCAL_NODES": "4", "PET_REPORT": "x", "PET_PORT_RANGE": "z"}, want: func(*Spec) {}},
		{name: "empty text means none", env: env{"PET_RDZV_ENDPOINT": "", "PET_RDZV_ID": "", "PET_LOG_DIR": "", "PET_RDZV_CONF": ""}, want: func(*Spec) {}},

		// Which backend.
		{
			name: "endpoint means gossip", flags: flags{"nnodes": "2", "rdzv_endpoint": "a"},
			want: func(s *Spec) { gossip(s, 2, Endpoint{"a", 29400}) },
		},
		{
			name: "endpoint of one node is its store, as under torchrun", flags: flags{"rdzv_endpoint": "a:5"},
			want: func(s *Spec) { static(s, 1, 0, "a", 5); s.MasterFrom = []string{"--rdzv-endpoint"} },
		},
		{
			name: "endpoints mean gossip even for one node", flags: flags{"rdzv_endpoint": "a:5,b:6"},
			want: func(s *Spec) { gossip(s, 1, Endpoint{"a", 5}, Endpoint{"b", 6}) },
		},
		{
			name: "c10d of one node", flags: flags{"rdzv_endpoint": "a:5", "rdzv_backend": "c10d"},
			want: func(s *Spec) { gossip(s, 1, Endpoint{"a", 5}) },
		},
		{
			name: "loopback endpoint for several nodes", flags: flags{"nnodes": "2", "rdzv_endpoint": "127.0.0.1"},
			want: func(s *Spec) { gossip(s, 2, Endpoint{"127.0.0.1", 29400}) },
		},
		{
			name: "several endpoints", flags: flags{"nnodes": "1:4", "rdzv_endpoint": "a,b:29401,[::1]:29402", "rdzv_backend": "gossip"},
			want: func(s *Spec) {
				gossip(s, 4, Endpoint{"a", 29400}, Endpoint{"b", 29401}, Endpoint{"::1", 29402})
				s.MinNodes = 1
			},
		},
		{
			name: "gossip ignores the master as torchrun does", flags: flags{"nnodes": "2", "rdzv_endpoint": "a", "master_addr": "b", "master_port": "7"},
			want: func(s *Spec) {
				gossip(s, 2, Endpoint{"a", 29400})
				s.Notes = []string{
					"--master-addr b has no meaning with the gossip rendezvous and is ignored",
					"--master-port 7 has no meaning with the gossip rendezvous and is ignored",
				}
			},
		},
		{name: "c10d without endpoint, one node", flags: flags{"rdzv_backend": "c10d"}, want: func(s *Spec) { master(s, 0, RankZero) }},
		{
			name: "port 0 is standalone", flags: flags{"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0", "nnodes": "1:4", "rdzv_id": "x"},
			want: func(s *Spec) { s.RunID = "x"; master(s, 0, RankZero) },
		},
		{name: "master port of one node", flags: flags{"master_port": "29501"}, want: func(s *Spec) { master(s, 29501, AgentAtPort) }},
		{name: "any master port of one node", flags: flags{"master_port": "0"}, want: func(s *Spec) { master(s, 0, AgentAtPort) }},
		{
			name: "master of one node", flags: flags{"master_port": "29501"}, env: env{"PET_MASTER_ADDR": "a"},
			want: func(s *Spec) {
				s.MasterAddr, s.MasterFrom = "a", []string{"PET_MASTER_ADDR"}
				master(s, 29501, AgentAtPort)
			},
		},
		{
			name: "master means static", flags: flags{"nnodes": "2", "master_addr": "a"},
			want: func(s *Spec) { static(s, 2, 0, "a", 29500) },
		},
		{
			name: "master port alone means static", flags: flags{"nnodes": "2", "master_port": "6", "node_rank": "1"},
			want: func(s *Spec) { static(s, 2, 1, "127.0.0.1", 6) },
		},
		{name: "static by name", flags: flags{"rdzv_backend": "static"}, want: func(s *Spec) { static(s, 1, 0, "127.0.0.1", 29500) }},
		{
			name: "static with endpoint", flags: flags{"rdzv_backend": "static", "nnodes": "2", "rdzv_endpoint": "a:7"},
			want: func(s *Spec) { static(s, 2, 0, "a", 7); s.MasterFrom = []string{"--rdzv-endpoint"} },
		},
		{
			name: "static endpoint wins over master", flags: flags{"rdzv_backend": "static", "nnodes": "2", "rdzv_endpoint": "a", "master_addr": "b", "master_port": "8"},
			want: func(s *Spec) {
				static(s, 2, 0, "a", 8)
				s.MasterFrom = []string{"--rdzv-endpoint"}
				s.Notes = []string{"--master-addr and --master-port are ignored: --rdzv-endpoint a decides"}
			},
		},
		{name: "standalone by backend", flags: flags{"rdzv_backend": "standalone", "nnodes": "1:3"}, want: func(*Spec) {}},
		{
			name: "node rank is kept for gossip", flags: flags{"nnodes": "2", "rdzv_endpoint": "a", "node_rank": "1"},
			want: func(s *Spec) { gossip(s, 2, Endpoint{"a", 29400}); s.NodeRank = 1 },
		},

		// Local nodes.
		{name: "local nodes", flags: flags{"local_nodes": "3"}, want: func(s *Spec) { gossip(s, 3); s.LocalNodes = 3 }},
		{name: "one local node", flags: flags{"local_nodes": "1"}, want: func(s *Spec) { s.LocalNodes = 1; master(s, 0, AgentAtPort) }},
		{
			name: "local nodes, same nnodes", flags: flags{"local_nodes": "3", "nnodes": "3", "rdzv_backend": "c10d"},
			want: func(s *Spec) { gossip(s, 3); s.LocalNodes = 3 },
		},
		{
			name: "local nodes in a scheduler's environment", flags: flags{"local_nodes": "2"}, env: env{"PET_NNODES": "4", "PET_NODE_RANK": "1", "PET_LOCAL_ADDR": "10.0.0.1"},
			want: func(s *Spec) {
				gossip(s, 2)
				s.LocalNodes = 2
				s.Notes = []string{
					"PET_NNODES=4 is ignored: --local-nodes starts 2 nodes; drop PET_NNODES or make them equal",
					"PET_NODE_RANK=1 is ignored: --local-nodes numbers its nodes itself",
					"PET_LOCAL_ADDR=10.0.0.1 is ignored: --local-nodes gives each node an address of its own, 127.0.0.1, .2, ...",
				}
			},
		},

		// Configuration.
		{
			name: "all of rdzv-conf", flags: flags{"rdzv_endpoint": "a", "rdzv_backend": "c10d", "rdzv_conf": "join_timeout=5,last_call_timeout=0.5,keep_alive_interval=2s,keep_alive_max_attempt=3,is_host=Yes"},
			want: func(s *Spec) {
				gossip(s, 1, Endpoint{"a", 29400})
				s.Conf = Conf{5 * time.Second, 500 * time.Millisecond, 2 * time.Second, 3, &yes}
			},
		},
		{
			name: "quotes that no shell removed, unknown keys", flags: flags{"rdzv_endpoint": "a", "rdzv_backend": "c10d", "rdzv_conf": "'join_timeout=5,is_host=0,timeout=5,store_type=file'"},
			want: func(s *Spec) {
				gossip(s, 1, Endpoint{"a", 29400})
				s.Conf.JoinTimeout, s.Conf.IsHost = 5*time.Second, &no
				s.Notes = []string{
					"--rdzv-conf store_type has no meaning with the gossip rendezvous and is ignored",
					"--rdzv-conf timeout has no meaning with the gossip rendezvous and is ignored",
				}
			},
		},
		{
			name: "static reads timeout and rank", flags: flags{"nnodes": "2", "master_addr": "a", "rdzv_conf": "timeout=9,rank=1"},
			want: func(s *Spec) { static(s, 2, 1, "a", 29500); s.Conf.JoinTimeout = 9 * time.Second },
		},
		{
			name: "node rank wins over rank", flags: flags{"nnodes": "3", "master_addr": "a", "node_rank": "2", "rdzv_conf": "rank=1"},
			want: func(s *Spec) { static(s, 3, 2, "a", 29500) },
		},

		// Shutdown time-out.
		{name: "torch's variable", env: env{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "4.5"}, want: func(s *Spec) { s.ShutdownTimeout = 4500 * time.Millisecond }},
		{
			name: "flag wins over torch's variable", flags: flags{"shutdown_timeout": "5s"}, env: env{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "-1"},
			want: func(s *Spec) { s.ShutdownTimeout = 5 * time.Second },
		},
		{name: "the watch for hangs", flags: flags{"hang_timeout": "1m", "on_hang": "restart"}, want: func(s *Spec) { s.HangTimeout, s.OnHang = time.Minute, OnHangRestart }},
		{name: "no watch for hangs", env: env{"GORUN_HANG_TIMEOUT": "0"}, want: func(s *Spec) { s.HangTimeout = 0 }},
		{name: "a code for another try", flags: flags{"requeue_exit_code": "75"}, want: func(s *Spec) { s.RequeueExitCode = 75 }},
		{name: "zero grace", flags: flags{"shutdown_timeout": "0"}, want: func(s *Spec) { s.ShutdownTimeout = 0 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := defaults()
			tt.want(&want)
			got, err := resolve(tt.flags, tt.env)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestStandaloneOverrides(t *testing.T) {
	f := flags{"standalone": "1", "rdzv_backend": "static", "rdzv_endpoint": "a:1", "rdzv_id": "mine", "nnodes": "1:4", "node_rank": "3"}
	got, err := resolve(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(got.RunID) {
		t.Errorf("run id %q is no random UUID", got.RunID)
	}
	if again, _ := resolve(f, nil); again.RunID == got.RunID {
		t.Error("two standalone jobs share a run id")
	}
	if len(got.Notes) != 4 {
		t.Errorf("want a note for backend, endpoint, id and rank, got %q", got.Notes)
	}
	want := defaults()
	want.RunID, want.Notes = got.RunID, got.Notes
	master(&want, 0, RankZero)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	// A port counts only if this command line names it: the variables are those of all
	// jobs.
	elsewhere := env{"PET_MASTER_ADDR": "a", "GORUN_MASTER_PORT": "7"}
	got, err = resolve(flags{"standalone": "1"}, elsewhere)
	want.RunID, want.Notes = got.RunID, []string{"PET_MASTER_ADDR=a is ignored: --standalone decides it", "GORUN_MASTER_PORT=7 is ignored: --standalone decides it"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("variables: %v\ngot  %+v\nwant %+v", err, got, want)
	}
	got, err = resolve(flags{"standalone": "1", "master_port": "7"}, nil)
	want.RunID, want.Notes = got.RunID, nil
	master(&want, 7, AgentAtPort)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("a port: %v\ngot  %+v\nwant %+v", err, got, want)
	}
	// The variable works too.
	if got, err := resolve(nil, env{"PET_STANDALONE": "1"}); err != nil || got.RunID == "none" {
		t.Errorf("PET_STANDALONE=1: %+v, %v", got, err)
	}
}

func TestResolveErrors(t *testing.T) {
	tests := []struct {
		name  string
		flags flags
		env   env
		want  string // part of the message
	}{
		{"nnodes text", flags{"nnodes": "two"}, nil, `--nnodes: "two" is neither N nor MIN:MAX`},
		{"nnodes three parts", flags{"nnodes": "1:2:3"}, nil, "neither N nor MIN:MAX"},
		{"nnodes zero", flags{"nnodes": "0"}, nil, "fewer than one node"},
		{"nnodes order", flags{"nnodes": "4:1"}, nil, "minimum above its maximum"},
		{"nnodes from PET", nil, env{"PET_NNODES": ""}, "PET_NNODES"},
		{"nproc text", flags{"nproc_per_node": "tpu"}, nil, "neither a number nor auto, cpu or gpu"},
		{"nnodes, too many", flags{"nnodes": "1:100001"}, nil, "more than 100000 nodes"},
		{"nproc, too many", flags{"nproc_per_node": "4097"}, nil, "more workers than the 4096"},
		{"nproc zero", flags{"nproc_per_node": "0"}, nil, "fewer than one worker"},
		{"max restarts", flags{"max_restarts": "-1"}, nil, "--max-restarts is -1"},
		{"PET switch", nil, env{"PET_MODULE": "true"}, "PET_MODULE"},
		{"node rank text", flags{"node_rank": "a"}, nil, "--node-rank"},
		{"node rank too high", flags{"nnodes": "2", "rdzv_endpoint": "a", "node_rank": "2"}, nil, "ranks go from 0 to 1"},
		{"conf rank too high", flags{"nnodes": "2", "master_addr": "a", "rdzv_conf": "rank=2"}, nil, "ranks go from 0 to 1"},
		{"module and no python", flags{"module": "1", "no_python": "1"}, nil, "--no-python together with -m"},
		{"no meeting place", flags{"nnodes": "2"}, nil, "give --rdzv-endpoint"},
		{"gossip without endpoint", flags{"nnodes": "2", "rdzv_backend": "c10d"}, nil, "without --rdzv-endpoint"},
		{"backend", flags{"rdzv_backend": "zookeeper"}, nil, "this build has gossip (also called c10d), etcd, static and standalone"},
		{"etcd without endpoint", flags{"rdzv_backend": "etcd-v2"}, nil, "without --rdzv-endpoint HOST[:PORT],... of etcd"},
		{"etcd port", flags{"rdzv_backend": "etcd", "rdzv_endpoint": "a:0"}, nil, "etcd has no port 0"},
		{"etcd cert alone", flags{"rdzv_backend": "etcd", "rdzv_endpoint": "a", "etcd_cert": "c.pem"}, nil, "a certificate for etcd without its key"},
		{"etcd user alone", flags{"rdzv_backend": "etcd", "rdzv_endpoint": "a", "etcd_user": "me"}, nil, "the etcd user me without a password"},
		{"etcd ttl", flags{"rdzv_backend": "etcd", "rdzv_endpoint": "a", "rdzv_conf": "ttl=1"}, nil, "ttl: 1s is less than 2s"},
		{"hang timeout", flags{"hang_timeout": "soon"}, nil, "--hang-timeout"},
		{"short hang timeout", nil, env{"GORUN_HANG_TIMEOUT": "0.2"}, "less than a second"},
		{"on hang", flags{"on_hang": "kill"}, nil, "neither report nor abort nor restart"},
		{"on hang of nothing", flags{"on_hang": "abort", "hang_timeout": "0"}, nil, "--hang-timeout 0"},
		{"on join", flags{"nnodes": "1:2", "rdzv_endpoint": "a", "on_join": "stop"}, nil, "neither restart nor wait"},
		{"a code for another try that is gorun's", flags{"requeue_exit_code": "2"}, nil, "--requeue-exit-code"},
		{"a code for another try that is a signal's", nil, env{"GORUN_REQUEUE_EXIT_CODE": "137"}, "GORUN_REQUEUE_EXIT_CODE"},
		{"bad endpoint", flags{"rdzv_endpoint": "http://a"}, nil, "--rdzv-endpoint"},
		{"port 0 of several", flags{"nnodes": "2", "rdzv_endpoint": "a:0"}, nil, "port 0"},
		{"elastic static", flags{"nnodes": "1:2", "master_addr": "a"}, nil, "size is fixed"},
		{"static with a list", flags{"nnodes": "2", "rdzv_backend": "static", "rdzv_endpoint": "a,b"}, nil, "one endpoint"},
		{"static port 0", flags{"nnodes": "2", "master_addr": "a", "master_port": "0"}, nil, "port 0"},
		{"master port", flags{"master_port": "65536"}, nil, "65535"},
		{"master addr", flags{"master_addr": "a b"}, nil, "--master-addr"},
		{"local addr", flags{"local_addr": "-x"}, nil, "--local-addr"},
		{"standalone with nodes", flags{"standalone": "1", "nnodes": "2"}, nil, "--standalone with --nnodes 2"},
		{"standalone backend with nodes", flags{"rdzv_backend": "standalone", "nnodes": "2"}, nil, "one node"},
		{"local nodes and nnodes", flags{"local_nodes": "2", "nnodes": "3"}, nil, "--nnodes 3 together with --local-nodes"},
		{"local nodes and rank", flags{"local_nodes": "2", "node_rank": "0"}, nil, "--node-rank 0 together with --local-nodes"},
		{"local nodes and address", flags{"local_nodes": "2", "local_addr": "127.0.0.7"}, nil, "--local-addr 127.0.0.7 together with --local-nodes: that gives each node an address of its own"},
		{"local nodes and endpoint", flags{"local_nodes": "2", "rdzv_endpoint": "a"}, nil, "--rdzv-endpoint a together with --local-nodes"},
		{"local nodes and static", flags{"local_nodes": "2", "rdzv_backend": "static"}, nil, "--rdzv-backend static together with --local-nodes"},
		{"local nodes and standalone", flags{"local_nodes": "2", "standalone": "1"}, nil, "--standalone together with --local-nodes"},
		{"local nodes, too many", flags{"local_nodes": "65535"}, nil, "there are 65534 loopback addresses"},
		{"local nodes zero", flags{"local_nodes": "0"}, nil, "--local-nodes is 0"},
		{"conf without value", flags{"rdzv_conf": "join_timeout"}, nil, "join_timeout has no value"},
		{"conf without key", flags{"rdzv_conf": "=5"}, nil, "not key=value"},
		{"conf trailing comma", flags{"rdzv_conf": "join_timeout=5,"}, nil, "not key=value"},
		{"conf zero", flags{"rdzv_conf": "join_timeout=0"}, nil, "positive"},
		{"conf negative", flags{"rdzv_conf": "last_call_timeout=-1"}, nil, "negative"},
		{"conf attempts", flags{"rdzv_conf": "keep_alive_max_attempt=0"}, nil, "keep_alive_max_attempt"},
		{"conf bool", flags{"rdzv_endpoint": "a", "rdzv_backend": "c10d", "rdzv_conf": "is_host=maybe"}, nil, "neither true nor false"},
		{"shutdown negative", flags{"shutdown_timeout": "-1"}, nil, "--shutdown-timeout: -1 is negative"},
		{"shutdown variable", nil, env{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "soon"}, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"},
		{"shutdown NaN", flags{"shutdown_timeout": "nan"}, nil, "not a usable number"},
		{"shutdown huge", flags{"shutdown_timeout": "1e12"}, nil, "not a usable number"},
		{"port range order", flags{"port_range": "9-8"}, nil, "--port-range"},
		{"port range text", flags{"port_range": "9"}, nil, "--port-range"},
		{"port range zero", flags{"port_range": "0-8"}, nil, "--port-range"},
		{"metrics address without port", flags{"metrics_addr": "localhost"}, nil, "--metrics-addr"},
		{"metrics address with any port", flags{"metrics_addr": ":0"}, nil, "--metrics-addr"},
		{"metrics address of no host", flags{"metrics_addr": "a b:9400"}, nil, "--metrics-addr"},
		{"port of a service record", flags{"rdzv_endpoint": "_gorun._tcp.train:29400", "nnodes": "2"}, nil, "--rdzv-endpoint"},
		{"service record of static", flags{"rdzv_endpoint": "_gorun._tcp.train", "rdzv_backend": "static", "nnodes": "2"}, nil, "--rdzv-endpoint"},
		{"service record of etcd", flags{"rdzv_endpoint": "_gorun._tcp.train", "rdzv_backend": "etcd", "nnodes": "2"}, nil, "--rdzv-endpoint"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := resolve(tt.flags, tt.env)
			if err == nil {
				t.Fatalf("accepted as %+v", got)
			}
			if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %q, want one line with %q", err, tt.want)
			}
		})
	}
	check := Raw{Flags: flags{"save": "f.json", "local_nodes": "2"}, Check: true}
	if _, err := check.Resolve(func(string) (string, bool) { return "", false }); err == nil || !strings.Contains(err.Error(), "--save together with --local-nodes 2") {
		t.Errorf("one file for two nodes: %v", err)
	}
	if _, err := (Raw{}).Resolve(func(string) (string, bool) { return "", false }); err == nil || !strings.Contains(err.Error(), "the following arguments are required: PROGRAM") {
		t.Errorf("without a program: %v", err)
	}
}

// TestFlagsOfAJobThatStartsNothing checks that gorun check and gorun env accept the
// flags of a job that starts. They ignore flags without a meaning for them, with a
// note if the user may need it.
func TestFlagsOfAJobThatStartsNothing(t *testing.T) {
	job := flags{
		"preflight": "off", "dry_run": "1", "report": "r.json", "log_dir": "l", "tee": "3", "redirects": "1",
		"shutdown_timeout": "5", "max_restarts": "3", "iface": "auto",
	}
	r := Raw{Flags: job, Command: []string{"p"}, Check: true}
	s, err := r.Resolve(func(string) (string, bool) { return "", false })
	if err != nil || s.Preflight != PreflightError || s.Dry != nil || s.ReportFile != "" || len(s.Notes) != 2 {
		t.Errorf("check: %+v, %v", s, err)
	}
	delete(job, "iface") // it needs the comparison
	r = Raw{Flags: job, Command: []string{"p"}, Show: true}
	s, err = r.Resolve(func(string) (string, bool) { return "", false })
	if err != nil || s.Dry == nil || s.Dry.EveryPart || s.ReportFile != "" || len(s.Notes) != 1 {
		t.Errorf("env: %+v, %v", s, err)
	}
	job["nnodes"] = "zero"
	if s, err := r.Resolve(func(string) (string, bool) { return "", false }); err == nil || s.ReportFile != "" {
		t.Errorf("a wrong flag: %+v, %v", s, err)
	}
}

func TestNoFile(t *testing.T) {
	for _, name := range []string{"report", "save", "secret_file"} {
		r := Raw{Flags: flags{name: ""}, Command: []string{"p"}, Check: true}
		if _, err := r.Resolve(func(string) (string, bool) { return "", false }); err == nil || !strings.Contains(err.Error(), "without a file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
