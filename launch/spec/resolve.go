package spec

import (
	"fmt"
	"net"
	"strconv"
	"time"
)

// Resolve returns what the user means. The command line wins over GORUN_<NAME>, then
// come PET_<NAME>, the surroundings and the default. The error is one line. With an
// error, the Spec says only where to report it.
func (r Raw) Resolve(lookup Lookup) (Spec, error) {
	in := &input{raw: r, lookup: lookup}
	around := in.surroundings()
	s := Spec{
		Surroundings: around,
		RunID:        in.text("rdzv_id", "none").text,
		Role:         in.text("role", "default").text,
		Output: Output{
			LogDir:     in.get("log_dir").text,
			Redirects:  in.text("redirects", "0").text,
			Tee:        in.text("tee", "0").text,
			ReportFile: in.file("report"),
		},
		Command: Command{NoPython: in.isOn("no_python"), Module: in.isOn("module"), LocalRankArg: r.Launch && !in.isOn("use_env")},
	}
	if s.ReportFile != "" && (r.Check || r.Show) {
		s.note("--report %s is ignored: no job is started", s.ReportFile)
		s.ReportFile = ""
	}
	if v := in.get("role"); v.given && v.text == "" {
		s.note("%s is empty: the role is %q", v.from, s.Role)
	}
	s.MaxRestarts, _ = in.number("max_restarts", 0, 0)
	in.nproc(&s)
	in.devices(&s)
	in.network(&s)
	in.metrics(&s)
	in.shutdown(&s)
	in.hang(&s)
	in.torchruns(&s)
	in.reportOn(&s)
	in.requeueExitCode(&s)
	in.program(&s)
	in.nodes(&s)
	in.preflight(&s)
	in.environment(&s)
	if in.err == nil {
		in.rendezvous(&s)
	}
	in.noteVariables(&s, r.Environ)
	if in.err != nil {
		return Spec{RunID: s.RunID, Output: Output{ReportFile: s.ReportFile}, Surroundings: around}, in.err
	}
	return s, nil
}

func (in *input) nproc(s *Spec) {
	s.Nproc = Nproc{Count: 1}
	v := in.get("nproc_per_node")
	if in.raw.SelfTest && !v.given {
		v.text, v.given = "auto", true
	}
	if v.given {
		var err error
		if s.Nproc, err = ParseNproc(v.text); err != nil {
			in.fail("cannot use %s: %w", v.from, err)
		}
	}
}

func (in *input) network(s *Spec) {
	if v := in.get("secret_file"); v.given {
		if s.SecretFile = v.text; v.text == "" { // probably from a shell variable that is not set
			in.fail("cannot use %s without a file", v.from)
		}
	}
	if v := in.text("local_addr", ""); v.given {
		if s.LocalAddr = v.text; !validHost(v.text) {
			in.fail("cannot use %s: %q is not a host name or an address", v.from, v.text)
		}
	}
	if v := in.text("port_range", ""); v.given {
		var err error
		if s.Ports, err = ParsePortRange(v.text); err != nil {
			in.fail("cannot use %s: %w", v.from, err)
		}
	}
}

// metrics reads where the agent answers a cluster's questions.
func (in *input) metrics(s *Spec) {
	v := in.text("metrics_addr", "")
	if !v.given {
		return
	}
	host, port, err := net.SplitHostPort(v.text)
	n, bad := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || bad != nil || n == 0 || host != "" && !validHost(host):
		in.fail("cannot use %s: %q is not HOST:PORT, or :PORT for all addresses", v.from, v.text)
	case in.raw.Check || in.raw.Show:
		s.note("%s %s is ignored: no job is started", v.from, v.text)
	default:
		s.MetricsAddr = v.text
	}
}

// shutdown reads the grace period. The order is: the flag, its PET_ variable,
// torch's own variable, torchrun's default.
func (in *input) shutdown(s *Spec) {
	s.ShutdownTimeout = DefaultShutdownTimeout
	v := in.get("shutdown_timeout")
	if !v.given {
		v.from = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
		v.text, v.given = in.lookup(v.from)
	}
	if !v.given {
		return
	}
	var err error
	if s.ShutdownTimeout, err = ParseSeconds(v.text); err != nil {
		in.fail("cannot use %s: %w", v.from, err)
	}
}

// hang reads what is done about a job that hangs.
func (in *input) hang(s *Spec) {
	s.HangTimeout, s.OnHang = DefaultHangTimeout, OnHangReport
	if v := in.text("hang_timeout", ""); v.given {
		var err error
		if s.HangTimeout, err = ParseSeconds(v.text); err != nil {
			in.fail("cannot use %s: %w", v.from, err)
		} else if s.HangTimeout > 0 && s.HangTimeout < time.Second {
			in.fail("cannot use %s: %s is less than a second; 0 turns the watch off", v.from, v.text)
		}
	}
	v := in.text("on_hang", string(OnHangReport))
	switch s.OnHang = OnHang(v.text); s.OnHang {
	case OnHangReport, OnHangAbort, OnHangRestart:
	default:
		in.fail("cannot use %s: %q is neither report nor abort nor restart", v.from, v.text)
	}
	if v.given && s.HangTimeout == 0 && s.OnHang != OnHangReport {
		in.fail("cannot use %s %s with --hang-timeout 0: nothing is watched", v.from, v.text)
	}
}

func (in *input) program(s *Spec) {
	if s.NoPython && s.Module && !s.RunPath {
		in.fail("cannot use --no-python together with -m: a module is run by Python")
	}
	if in.raw.Launch && s.NoPython && !s.RunPath && s.LocalRankArg {
		in.fail("cannot use --no-python without --use-env: When using the '--no_python' flag, you must also set the '--use_env' flag.")
	}
	if len(in.raw.Command) == 0 && in.raw.Check {
		return
	}
	if len(in.raw.Command) == 0 || in.raw.Command[0] == "" {
		in.fail("error: the following arguments are required: PROGRAM (name a Python script, a Go package or a program after the flags; gorun --help shows how)")
		return
	}
	s.Program, s.Args = in.raw.Command[0], in.raw.Command[1:]
}

// nodes reads how many nodes take part, and the rank of this node.
func (in *input) nodes(s *Spec) {
	s.MinNodes, s.MaxNodes, s.NodeRank = 1, 1, -1
	nnodes := in.get("nnodes")
	if nnodes.given {
		var err error
		if s.MinNodes, s.MaxNodes, err = ParseNodes(nnodes.text); err != nil {
			in.fail("cannot use %s: %w", nnodes.from, err)
		}
	}
	var local value
	s.LocalNodes, local = in.number("local_nodes", 0, 1)
	if s.LocalNodes > maxLocalNodes {
		in.fail("cannot use %s %d: there are %d loopback addresses for nodes, 127.0.0.1 to 127.0.255.254", local.from, s.LocalNodes, maxLocalNodes)
	}
	if s.LocalNodes > 0 {
		in.localNodes(s, nnodes)
		return
	}
	s.NodeRank, _ = in.number("node_rank", -1, 0)
	in.checkAllocation(s, nnodes)
	in.nameNode(s)
}

// maxLocalNodes is the number of addresses from 127.0.0.1 to 127.0.255.254.
const maxLocalNodes = 1<<16 - 2

// localNodes sets the size of a job whose nodes are all on this machine. A flag
// that contradicts it is an error. A variable that contradicts it is a note,
// because a scheduler may have set it.
func (in *input) localNodes(s *Spec, nnodes value) {
	n := s.LocalNodes
	if nnodes.given && (s.MinNodes != n || s.MaxNodes != n) {
		in.conflict(s, nnodes, fmt.Sprintf("starts %d nodes; drop %s or make them equal", n, nnodes.from))
	}
	s.MinNodes, s.MaxNodes = n, n
	in.conflict(s, in.get("node_rank"), "numbers its nodes itself")
	in.conflict(s, in.text("master_addr", ""), "chooses the addresses itself")
	in.conflict(s, in.text("local_addr", ""), "gives each node an address of its own, 127.0.0.1, .2, ...")
	s.LocalAddr = ""
	if in.isOn("standalone") {
		in.fail("cannot use --standalone together with --local-nodes: it is for one node")
	}
	b := in.text("rdzv_backend", "")
	if isEtcd(b.text) {
		return
	}
	in.conflict(s, in.text("rdzv_endpoint", ""), "chooses the endpoint itself")
	if b.given && b.text != "c10d" && b.text != string(Gossip) {
		in.conflict(s, b, "uses the gossip rendezvous")
	}
}

func (in *input) conflict(s *Spec, v value, why string) {
	switch {
	case !v.given:
	case v.env:
		s.note("%s=%s is ignored: --local-nodes %s", v.from, v.text, why)
	default:
		in.fail("cannot use %s %s together with --local-nodes: that %s", v.from, v.text, why)
	}
}
