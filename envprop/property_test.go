package envprop

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/envprop/ncclenv"
)

// credential is in every credential of these tests. No output may show it.
const credential = "s3cret-value"

// draw makes a random world.
func draw(r *rand.Rand) []fake {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	some := func(n int, draw func() string) (list []string) {
		for range r.IntN(n + 1) {
			list = append(list, draw())
		}
		return list
	}
	name := func() string {
		return pick("NCCL_ALGO", "NCCL_PROTO", "UCX_IB_SL", "NCCL_SOCKET_IFNAME", "NCCL_P2P_DISABLE", "NCCL_DEBUG", "NCCL_NEW", "NCCL_PSK", "HF_TOKEN", "MINE", "PATH", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")
	}
	assign := func() string {
		n := name()
		if ncclenv.Credential(n) {
			return n + "=" + credential + pick("1", "2")
		}
		if n == "MINE" || n == "NCCL_DEBUG" { // what must agree has no such values
			return n + "=http://u:" + credential + "@h/"
		}
		return n + "=" + pick("", "1", "2")
	}
	to := func() string { return pick("", "", "", "node=0:", "node=1:", "role=ps:", "node=77:") }
	nodes := make([]fake, 1+r.IntN(5))
	for i := range nodes {
		nodes[i] = fake{
			env:   some(8, assign),
			x:     some(3, func() string { return to() + pick(name(), assign(), "NCCL_*", "*") }),
			unset: some(1, func() string { return to() + pick(name(), "NCCL_*") }),
			role:  pick("ps", "worker"),
		}
		if r.IntN(4) == 0 {
			nodes[i].conf = pick("NCCL_ALGO=1", "NCCL_PROTO=2\nNCCL_ALGO=3", "HF_TOKEN="+credential)
		}
		if r.IntN(3) == 0 {
			nodes[i].file = pick("MINE='9'", "NCCL_ALGO=9\nHF_TOKEN="+credential)
		}
	}
	return nodes
}

func TestUnifyInRandomWorlds(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for k := range 300 {
		r := rand.New(rand.NewPCG(seed, uint64(k)))
		nodes := draw(r)
		list := reports(t, nodes)
		// Encoded and decoded, as in a job.
		wired := make([]Report, len(list))
		for i := range list {
			b, err := list[i].Encode()
			if err != nil {
				t.Fatal(err)
			}
			if wired[i], err = DecodeReport(b); err != nil {
				t.Fatalf("%d: %v in %s", k, err, b)
			}
		}
		d := Unify(list, Policy{})
		if again := Unify(wired, Policy{}); !reflect.DeepEqual(d, again) {
			t.Fatalf("%d: two decisions of one world:\n%+v\n%+v", k, d, again)
		}
		checkAgrees(t, k, nodes, d)
		checkSettles(t, k, nodes, d)
		checkHidesCredentials(t, k, list, d)
	}
}

// checkAgrees checks that a variable that must agree has one value, or that a difference
// reports it.
func checkAgrees(t *testing.T, k int, nodes []fake, d Decision) {
	t.Helper()
	for _, name := range []string{"NCCL_ALGO", "NCCL_PROTO", "UCX_IB_SL", "NCCL_NEW"} {
		got := effective(nodes, d, name)
		at := slices.IndexFunc(d.Differences, func(x Difference) bool { return x.Name == name })
		same := len(slices.Compact(slices.Clone(got))) == 1
		if left := at >= 0 && d.Differences[at].Remains; !same && !left {
			t.Fatalf("%d: %s is %q and no difference reports it: %+v", k, name, got, nodes)
		}
	}
}

// checkSettles checks that a world with the decided environment and without requests
// gets no further change.
func checkSettles(t *testing.T, k int, nodes []fake, d Decision) {
	t.Helper()
	settled := make([]fake, len(nodes))
	for i, f := range nodes {
		settled[i] = fake{conf: f.conf, role: f.role}
		for _, e := range NewBase(f.env).Apply(d.Members[i]).entries {
			settled[i].env = append(settled[i].env, e.text)
		}
	}
	for _, x := range d.Differences {
		if x.Remains {
			return
		}
	}
	next := Unify(reports(t, settled), Policy{})
	for i, a := range next.Members {
		if len(a.Set)+len(a.Unset) > 0 {
			t.Fatalf("%d: node %d of a settled world gets %+v\n%+v", k, i, a, nodes)
		}
	}
}

// checkHidesCredentials checks that no output shows a credential, and that no node sends a
// credential that no request names.
func checkHidesCredentials(t *testing.T, k int, list []Report, d Decision) {
	t.Helper()
	var final []Setting
	for i, a := range d.Members {
		b := NewBase([]string{"HF_TOKEN=" + credential, "U=http://u:" + credential + "@h"}).Apply(a)
		final = append(final, b.Explain(Vars{Ranks: Ranks{Rank: i}, Round: Round{WorldToken: credential}})...)
	}
	for _, v := range []any{list, d, final, Diff(final, nil)} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, printed := range []string{string(text), fmt.Sprint(v), fmt.Sprintf("%v", v), fmt.Sprintf("%+v", v), fmt.Sprintf("%#v", v), fmt.Sprintf("%q", v), fmt.Sprintf("%x", v)} {
			if strings.Contains(printed, credential) || strings.Contains(printed, fmt.Sprintf("%x", credential)) {
				t.Fatalf("%d: a credential is shown: %s", k, printed)
			}
		}
	}
	for _, r := range list {
		for _, o := range r.Values {
			if o.Value.HasCredential() {
				t.Fatalf("%d: %s is sent without a request", k, o.Name)
			}
		}
		for _, a := range r.Overrides {
			if a.Value.HasCredential() && (a.Kind != FromFlag || !a.Exact) && ncclenv.Credential(a.Name) {
				t.Fatalf("%d: %s is sent by %s", k, a.Name, a.At)
			}
		}
	}
}

func TestValueShowsNoCredential(t *testing.T) {
	for _, name := range []string{"HF_TOKEN", "AWS_ACCESS_KEY_ID", "DBPASSWORD", "MY_SECRET", "SSH_AUTH_SOCK", "GITHUB_X", "WANDB_API_KEY", "GORUN_WORLD_TOKEN", "MYSQL_PWD"} {
		v := NewValue(name, credential)
		all := struct {
			V Value
			v Value
			p *Value
			m map[string]Value
		}{v, v, &v, map[string]Value{"a": v}}
		text, err := json.Marshal(map[string]any{"a": v, "b": []Value{v}, "c": &v})
		printed := fmt.Sprint(v, &v, all) + fmt.Sprintf("%v %+v %#v %+v %#v %s", v, v, v, all, all, text)
		if err != nil || strings.Contains(printed, credential) || !v.HasCredential() || v.Reveal() != credential {
			t.Errorf("%s: %s, %v", name, printed, err)
		}
	}
	for _, name := range []string{"NCCL_IB_PKEY", "TOKENIZERS_PARALLELISM", "PWD", "MONKEY", "NCCL_ALGO", "COMPASS", "KEYBOARD"} {
		if v := NewValue(name, "x"); v.HasCredential() || v.String() != "x" {
			t.Errorf("%s is hidden", name)
		}
	}
	if v := NewValue("A", "x\x1b[2J\ny"); v.String() != `"x\x1b[2J\ny"` {
		t.Errorf("a terminal would obey %s", v)
	}
	if v := NewValue("A", strings.Repeat("x", 100_000)); v.HasCredential() || len(v.String()) > 10_000 || len(v.Reveal()) != 100_000 {
		t.Error("a long value is not merely shortened")
	}
}
