package check

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/probe"
)

// withProbes adds the answers of nodes to a comparison; some nodes are not reached.
func withProbes(c rendezvous.Compare, unreached func(from, to int) bool) rendezvous.Compare {
	c.Questions, c.AnsweredAt = 2, make([]time.Time, len(c.World.Members))
	for _, plan := range probe.Plans(buildFleet(c)) {
		var got []preflight.Probe
		for _, t := range plan.Targets {
			p := preflight.Probe{From: plan.Node, To: t.To, Use: t.Use, Iface: t.Iface, Source: t.Source, Target: t.Target, Large: t.Large, Result: preflight.OK}
			if unreached(plan.Node, t.To) {
				p.Result = preflight.TimedOut
			}
			got = append(got, p)
		}
		c.Answers = append(c.Answers, marshal(answer{Probes: marshal(got)}))
	}
	return c
}

// TestNewNodeIsRefusedByItsProbes checks that only a new node that no node
// reaches is refused. If the old nodes do not reach each other, no new node is to
// blame.
func TestNewNodeIsRefusedByItsProbes(t *testing.T) {
	fleet := func() rendezvous.Compare {
		var all []preflight.Facts
		for i := range 4 {
			all = append(all, gpuNode(i, "2.27.5", 22705))
		}
		c := compareRequest(t, all...)
		c.New = []int{2, 3}
		return c
	}
	v := Decide(strictPolicy(), withProbes(fleet(), func(from, to int) bool { return from == 3 || to == 3 }))
	if v.Outcome == nil || !slices.Equal(v.Only, []rendezvous.NodeID{"id3"}) {
		t.Errorf("node 3 is not reached: %v, %+v", v.Only, v.Outcome)
	}
	v = Decide(strictPolicy(), withProbes(fleet(), func(from, to int) bool { return from+to == 1 }))
	if v.Outcome == nil || len(v.Only) > 0 {
		t.Errorf("the old nodes do not reach each other: %v, %+v", v.Only, v.Outcome)
	}
}

// TestProbeErrorIsProbedAgain checks that an error that only a probe finds is probed
// again before the job is refused.
func TestProbeErrorIsProbedAgain(t *testing.T) {
	c := withProbes(compareRequest(t, gpuNode(0, "2.27.5", 22705), gpuNode(1, "2.27.5", 22705)), func(from, _ int) bool { return from == 0 })
	c.Questions = 1
	if v := Decide(strictPolicy(), c); len(v.Ask) != 2 || v.Outcome != nil {
		t.Errorf("after one question: %+v", v)
	}
	c.Questions = 2
	if v := Decide(strictPolicy(), c); v.Outcome == nil || v.Outcome.Code != rendezvous.ExitPreflight {
		t.Errorf("after two: %+v", v)
	}
}

// TestManyNewNodes checks that of many new nodes those that the findings name are
// refused.
func TestManyNewNodes(t *testing.T) {
	var all []preflight.Facts
	for i := range 2 * maxSeparate {
		all = append(all, gpuNode(i, "2.27.5", 22705))
	}
	all[20].Libraries.NCCL.Version, all[20].Libraries.NCCL.Code = "2.19.3", 21903
	c := compareRequest(t, all...)
	for i := 8; i < len(all); i++ {
		c.New = append(c.New, i)
	}
	if v := Decide(strictPolicy(), c); v.Outcome == nil || !slices.Equal(v.Only, []rendezvous.NodeID{"id20"}) {
		t.Errorf("%v, %+v", v.Only, v.Outcome)
	}
}

// TestInvalidFactsChangeNothing checks that invalid facts and answers set no variable
// and no clock.
func TestInvalidFactsChangeNothing(t *testing.T) {
	a := gpuNode(0, "2.27.5", 22705)
	a.Settings = append(a.Settings, ifaceVariable("LD_PRELOAD", "/evil.so"), ifaceVariable("GLOO_SOCKET_IFNAME", "eth0"))
	if got := chosenVariables([]preflight.Facts{a}); len(got[0]) != 1 || got[0][0].Name != "GLOO_SOCKET_IFNAME" || got[0][0].Value != "eth0" {
		t.Errorf("chosen %v", got)
	}
	c := withProbes(compareRequest(t, a, gpuNode(1, "2.27.5", 22705)), func(int, int) bool { return false })
	c.AskedAt, c.AnsweredAt[1] = time.Unix(1e9, 0), time.Unix(1e9, 0)
	c.Answers[1] = json.RawMessage("null")
	f := buildFleet(c)
	if addAnswers(f, probe.Plans(f), c); f.Nodes[1].Node.Offset != 0 {
		t.Errorf("offset %d", f.Nodes[1].Node.Offset)
	}
}

func TestValidateIgnore(t *testing.T) {
	if err := ValidateIgnore([]string{"V01", "i05", "nccl-version"}); err != nil {
		t.Error(err)
	}
	for _, word := range []string{"V99", "v99", "nccl-versoin", "-"} {
		if err := ValidateIgnore([]string{"V01", word}); err == nil || !strings.Contains(err.Error(), "cannot use --ignore "+word+": ") {
			t.Errorf("%s: %v", word, err)
		}
	}
}

func ifaceVariable(name, value string) ncclenv.Value {
	return ncclenv.Value{Name: name, Value: value, Source: ifaceSource}
}
