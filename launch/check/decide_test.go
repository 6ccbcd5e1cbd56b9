package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/library"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
	"github.com/gorun/gorun/rendezvous/preflight/probe"
)

// gpuNode returns the facts of a GPU node on its own machine, with eth<i> in one
// network and mgmt0 in another.
func gpuNode(i int, nccl string, code int) preflight.Facts {
	f := preflight.Facts{
		Format: preflight.Format,
		Node: preflight.Node{
			ID: fmt.Sprintf("id%d", i), Host: fmt.Sprintf("node%d", i), Name: fmt.Sprintf("node%d (192.168.0.%d)", i, i+1),
			Addr: fmt.Sprintf("192.168.0.%d", i+1), Workers: 1, NodeRank: -1, Protocol: rendezvous.Protocol,
		},
		GPU: preflight.GPU{
			Driver: true, Visible: []string{fmt.Sprintf("GPU-%d", i)}, Devices: []preflight.Device{{UUID: fmt.Sprintf("GPU-%d", i)}},
		},
		Libraries: library.Facts{NCCL: &library.NCCL{Path: "/site/nvidia/nccl/lib/libnccl.so.2", Version: nccl, Code: code, CUDA: "12.8", Why: "RPATH"}},
		Network: netif.Facts{
			Interfaces: []netif.Interface{
				{Index: 2, Name: fmt.Sprintf("eth%d", i), MTU: 1500, Up: true, Running: true, Device: true, MAC: fmt.Sprintf("02:00:00:00:00:%02x", i)},
				{Index: 3, Name: "mgmt0", MTU: 1500, Up: true, Running: true, Device: true, MAC: fmt.Sprintf("02:00:00:00:01:%02x", i)},
			},
			Addresses: []netif.Address{
				{Index: 2, Label: fmt.Sprintf("eth%d", i), IP: fmt.Sprintf("10.%d.0.%d", i, i+1), Bits: 24, Scope: "global"},
				{Index: 3, Label: "mgmt0", IP: fmt.Sprintf("192.168.0.%d", i+1), Bits: 24, Scope: "global"},
			},
			Namespace: "net:[1]",
		},
	}
	f.Host.Hostname, f.Host.BootID, f.Host.NS.Net = f.Node.Host, fmt.Sprintf("boot%d", i), "net:[1]"
	f.Host.SysPCI, f.Host.CPUs = true, 8
	f.Listeners = []preflight.Listener{
		{Iface: fmt.Sprintf("eth%d", i), Addr: fmt.Sprintf("10.%d.0.%d", i, i+1), Port: 4000 + i, Use: preflight.UseBootstrap},
		{Iface: "mgmt0", Addr: fmt.Sprintf("192.168.0.%d", i+1), Port: 5000 + i, Use: useCandidate},
	}
	return f
}

func compareRequest(t *testing.T, all ...preflight.Facts) rendezvous.Compare {
	t.Helper()
	c := rendezvous.Compare{Serial: 7, World: rendezvous.World{Store: "192.168.0.1:29500"}}
	for i, f := range all {
		body, err := preflight.Encode(f)
		if err != nil {
			t.Fatal(err)
		}
		c.Facts = append(c.Facts, body)
		c.World.Members = append(c.World.Members, rendezvous.Member{
			ID: rendezvous.NodeID(f.Node.ID), Host: f.Node.Host, Addr: f.Node.Addr, Workers: f.Node.Workers, FirstRank: i,
		})
	}
	return c
}

func strictPolicy(ignore ...string) *Policy {
	return &Policy{Checks: spec.Checks{Preflight: spec.PreflightError, Ignore: ignore}, MaxNodes: 2}
}

// errorIDs returns the ids of the errors in a result.
func errorIDs(t *testing.T, v *rendezvous.CheckResult) []string {
	t.Helper()
	var found []preflight.Finding
	if err := json.Unmarshal(v.Findings, &found); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, x := range found {
		if x.Severity == preflight.Error {
			ids = append(ids, x.ID)
		}
	}
	return ids
}

// withAnswers returns a comparison after the first question. The nodes have found
// nothing unless answers has their answer.
func withAnswers(c rendezvous.Compare, answers ...json.RawMessage) rendezvous.Compare {
	n := len(c.World.Members)
	c.Answers, c.AnsweredAt, c.Questions = make([]json.RawMessage, n), make([]time.Time, n), 1
	copy(c.Answers, answers)
	return c
}

func TestDifferentVersionsAreRefused(t *testing.T) {
	v := Decide(strictPolicy(), withAnswers(compareRequest(t, gpuNode(0, "2.27.5", 22705), gpuNode(1, "2.19.3", 21903))))
	if v.Serial != 7 || v.Outcome == nil || v.Outcome.Code != rendezvous.ExitPreflight || v.Only != nil {
		t.Fatalf("not refused: %+v", v)
	}
	if ids := errorIDs(t, v.Outcome.Preflight); !slices.Contains(ids, "V01") {
		t.Errorf("errors %v, want V01 among them", ids)
	}
	if !strings.Contains(v.Outcome.Preflight.Table, "2.19.3") || !strings.Contains(v.Outcome.Cause.Message, "V01") {
		t.Errorf("the table has no version or the cause no id:\n%s\n%s", v.Outcome.Cause.Message, v.Outcome.Preflight.Table)
	}
}

func TestWarnStartsAllTheSame(t *testing.T) {
	s := strictPolicy()
	s.Preflight = spec.PreflightWarn
	c := compareRequest(t, gpuNode(0, "2.27.5", 22705), gpuNode(1, "2.19.3", 21903))
	if v := Decide(s, c); v.Ask == nil || v.Outcome != nil {
		t.Fatalf("there are no probes: %+v", v)
	}
	if v := Decide(s, withAnswers(c)); v.Outcome != nil || v.Ask != nil || !strings.Contains(v.Warnings, "V01") {
		t.Errorf("not started with a warning: %+v", v)
	}
}

// TestNewNodeIsRefusedAlone checks that a new node that does not fit is refused, and
// that the others are not.
func TestNewNodeIsRefusedAlone(t *testing.T) {
	c := compareRequest(t, gpuNode(0, "2.27.5", 22705), gpuNode(1, "2.27.5", 22705), gpuNode(2, "2.19.3", 21903), gpuNode(3, "2.27.5", 22705))
	c.New = []int{2, 3}
	v := Decide(strictPolicy(), c)
	if v.Outcome == nil || v.Outcome.Code != rendezvous.ExitPreflight || !slices.Equal(v.Only, []rendezvous.NodeID{"id2"}) {
		t.Fatalf("want id2 alone refused: %+v", v)
	}
	c.New = []int{3} // the odd node has run before, so the world cannot continue
	if v := Decide(strictPolicy(), c); v.Outcome == nil || v.Only != nil {
		t.Errorf("want the job refused: %+v", v)
	}
	c = compareRequest(t, gpuNode(0, "2.27.5", 22705), gpuNode(1, "2.19.3", 21903))
	c.New, c.WorldRuns = []int{1}, true
	if v := Decide(strictPolicy(), c); v.Outcome == nil || len(v.Only) != 1 {
		t.Errorf("a late node that does not fit is not refused: %+v", v)
	}
	c = compareRequest(t, gpuNode(0, "2.27.5", 22705), gpuNode(1, "2.27.5", 22705))
	c.New, c.WorldRuns = []int{1}, true
	if v := Decide(strictPolicy(), c); v.Outcome != nil || v.Ask != nil {
		t.Errorf("a late node that fits gets an answer: %+v", v)
	}
}

// TestIfaceAuto checks that --iface auto gives each node its own name of the common
// network.
func TestIfaceAuto(t *testing.T) {
	s := strictPolicy("I02", "R02")
	s.Iface = "auto"
	c := compareRequest(t, gpuNode(0, "2.27.5", 22705), gpuNode(1, "2.27.5", 22705))
	v := Decide(s, c)
	if v.Ask == nil {
		t.Fatalf("there are no probes: %+v", v)
	}
	if !strings.Contains(string(v.Ask[0]), `"192.168.0.2:5001"`) || strings.Contains(string(v.Ask[0]), `"10.1.0.2:4001"`) {
		t.Errorf("node 0 probes %s", v.Ask[0])
	}
	v = Decide(s, withAnswers(c))
	want := []string{"GLOO_SOCKET_IFNAME=mgmt0", "NCCL_SOCKET_IFNAME==mgmt0", "TP_SOCKET_IFNAME=mgmt0", "UCX_NET_DEVICES=mgmt0"}
	if v.Outcome != nil || !slices.Equal(assignedVariables(t, v, 1), want) {
		t.Errorf("environment %v (outcome %+v), want %v", assignedVariables(t, v, 1), v.Outcome, want)
	}
	isolated := gpuNode(1, "2.27.5", 22705)
	isolated.Network.Addresses = isolated.Network.Addresses[:1]
	v = Decide(s, withAnswers(compareRequest(t, gpuNode(0, "2.27.5", 22705), isolated)))
	if v.Outcome == nil || !slices.Contains(errorIDs(t, v.Outcome.Preflight), "I14") {
		t.Errorf("no common network, and no I14: %+v", v)
	}
}

// TestIfaceAutoOfOneNode checks that a machine without a network can run a job of
// its own.
func TestIfaceAutoOfOneNode(t *testing.T) {
	s := strictPolicy()
	s.Iface = "auto"
	alone := gpuNode(0, "2.27.5", 22705)
	alone.Network = netif.Facts{}
	if v := Decide(s, compareRequest(t, alone)); v.Outcome != nil {
		t.Errorf("refused: %s", v.Outcome.Preflight.Table)
	}
}

func TestCheckEndsWithItsFindings(t *testing.T) {
	s := strictPolicy()
	s.Check = &spec.Check{}
	a := gpuNode(0, "2.27.5", 22705)
	v := Decide(s, compareRequest(t, a, a)) // one id twice: the second facts belong to no node
	if v.Outcome == nil && v.Ask == nil {
		t.Errorf("a check went on to a world: %+v", v)
	}
	c := compareRequest(t, a)
	v = Decide(s, c)
	if v.Outcome == nil || v.Outcome.Preflight == nil {
		t.Fatalf("no outcome: %+v", v)
	}
	if want := len(errorIDs(t, v.Outcome.Preflight)) > 0; want != (v.Outcome.Code == rendezvous.ExitPreflight) {
		t.Errorf("code %d with errors %v", v.Outcome.Code, errorIDs(t, v.Outcome.Preflight))
	}
}

// TestOffset checks that the offset of a clock is found although question and
// answer take time.
func TestOffset(t *testing.T) {
	asked := time.Unix(1000, 0)
	heard := asked.Add(3 * time.Second)
	const ahead = 5 * time.Second
	a := answer{
		Received: asked.Add(time.Second + ahead).UnixNano(),
		Sent:     asked.Add(2*time.Second + ahead).UnixNano(),
	}
	if got := a.offset(asked, heard); got != ahead {
		t.Errorf("offset %v, want %v", got, ahead)
	}
}

// probeAnswer returns the answer of a node whose probes all had the same result.
func probeAnswer(t *testing.T, question json.RawMessage, as preflight.Probe) json.RawMessage {
	t.Helper()
	plan, err := probe.Decode(question)
	if err != nil {
		t.Fatal(err)
	}
	var list []preflight.Probe
	for _, g := range plan.Targets {
		p := as
		p.From, p.To, p.Use, p.Iface, p.Source, p.Target, p.Large = plan.Node, g.To, g.Use, g.Iface, g.Source, g.Target, g.Large
		list = append(list, p)
	}
	return marshal(answer{Probes: marshal(list)})
}

// TestOneTableHasFactsAndProbes checks that an error of the facts does not hide
// that the network is broken, too.
func TestOneTableHasFactsAndProbes(t *testing.T) {
	s := strictPolicy("I01", "R02")
	c := compareRequest(t, gpuNode(0, "2.27.5", 22705), gpuNode(1, "2.19.3", 21903))
	v := Decide(s, c)
	if v.Ask == nil || v.Outcome != nil {
		t.Fatalf("facts end the comparison before the probes: %+v", v.Outcome)
	}
	timeout := preflight.Probe{Result: preflight.TimedOut}
	c = withAnswers(c, probeAnswer(t, v.Ask[0], timeout), probeAnswer(t, v.Ask[1], timeout))
	if v = Decide(s, c); v.Ask == nil {
		t.Fatalf("the probes are not run a second time: %+v", v.Outcome)
	}
	c.Questions = 2
	v = Decide(s, c)
	if v.Outcome == nil || !slices.Equal(errorIDs(t, v.Outcome.Preflight), []string{"I02", "V01"}) {
		t.Errorf("%+v", v.Outcome)
	}
}

// TestClockOfTheShortestRoundTrip checks that the sample with the shortest round
// trip sets the clock, and that half of the round trip is the bound of its error.
func TestClockOfTheShortestRoundTrip(t *testing.T) {
	const second = int64(time.Second)
	question := Decide(strictPolicy("I01", "R02"), compareRequest(t, gpuNode(0, "2.27.5", 22705), gpuNode(1, "2.27.5", 22705))).Ask
	if question == nil {
		t.Fatal("there are no probes")
	}
	asked := time.Unix(1000, 0)
	for _, c := range []struct {
		name          string
		question, lag int64 // lag on the way there; there is none on the way back
		probe         preflight.Probe
		found         bool
	}{
		{"a slow way there", 0, 2 * second, preflight.Probe{Result: preflight.OK}, false},
		{"a clock that is ahead", 2 * second, 0, preflight.Probe{Result: preflight.OK}, true},
		{"a clock that is ahead, and a slow way", 2 * second, second, preflight.Probe{Result: preflight.OK}, true},
		{"a slow way, and a probe that was faster", 0, 9 * second, preflight.Probe{Result: preflight.OK, RoundMS: 10}, false},
		{"an offset that only a probe shows", 0, 9 * second, preflight.Probe{Result: preflight.OK, RoundMS: 10, Ahead: -second}, true},
	} {
		x := compareRequest(t, gpuNode(0, "2.27.5", 22705), gpuNode(1, "2.27.5", 22705))
		x.World.Coordinator = "id0"
		var a answer
		if err := json.Unmarshal(probeAnswer(t, question[1], c.probe), &a); err != nil {
			t.Fatal(err)
		}
		received := asked.Add(time.Duration(c.question + c.lag))
		a.Received, a.Sent = received.UnixNano(), received.UnixNano()
		x = withAnswers(x, nil, marshal(a))
		x.AskedAt, x.AnsweredAt[1] = asked, asked.Add(time.Duration(c.lag))
		found := slices.ContainsFunc(Decide(strictPolicy("I01", "R02"), x).Findings, func(f preflight.Finding) bool { return f.ID == "H02" })
		if found != c.found {
			t.Errorf("%s: found %v", c.name, found)
		}
	}
}

// FuzzDecide checks that nothing that a member sends can stop the coordinator.
func FuzzDecide(f *testing.F) {
	f.Add([]byte(`{}`), []byte(`{"probes":[]}`))
	f.Add([]byte(`{"format":1,"node":{"id":"id1"}}`), []byte(`{"probes":[{"from":1}],"came_unix_ns":9223372036854775807}`))
	f.Add([]byte(`null`), []byte(`{"format":1,"own":[{"n":"NCCL_ALGO","v":"UmluZw=="}],"asks":[{"n":"NCCL_*","kind":"--unset"},{"n":"X","to":{"By":"node","Name":"1"},"kind":"-x","whole":true}]}`))
	f.Fuzz(func(t *testing.T, facts, reply []byte) {
		c := compareRequest(t, gpuNode(0, "2.27.5", 22705), gpuNode(1, "2.27.5", 22705))
		c.Facts[1], c.Envs = facts, [][]byte{nil, reply}
		Decide(strictPolicy(), c)
		off := strictPolicy()
		off.Preflight = spec.PreflightOff
		Decide(off, c)
		Decide(strictPolicy(), withAnswers(c, nil, reply))
	})
}

// TestRefusalHasItsTime checks that the outcome of a refused job has the time of the
// refusal, and its code.
func TestRefusalHasItsTime(t *testing.T) {
	v := Decide(strictPolicy(), withAnswers(compareRequest(t, gpuNode(0, "2.27.5", 22705), gpuNode(1, "2.19.3", 21903))))
	at := time.Unix(1e9, 0)
	v.setTime(at)
	for _, c := range append(v.Outcome.Failures, *v.Outcome.Cause) {
		if !c.Time.Equal(at) || c.ExitCode != rendezvous.ExitPreflight {
			t.Errorf("%+v", c)
		}
	}
}
