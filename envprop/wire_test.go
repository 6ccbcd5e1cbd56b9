package envprop

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestReportTravels(t *testing.T) {
	r := fake{
		env:  []string{"NCCL_ALGO=Ring", "HF_TOKEN=s3cret", "NCCL_TOPO_FILE=/x\xff", "HOME=/home", "CUDA_VISIBLE_DEVICES=1", "MINE=1", "NCCL_PSK=s3cret"},
		conf: "NCCL_ALGO=Tree\nNCCL_PROTO=LL\nMY_KEY=s3cret\nNCCL_TOPO_FILE=/y", x: []string{"HF_TOKEN", "node=1:MINE"}, unset: []string{"FOO_*"}, file: "A=1\nB_KEY=s3cret",
	}.report(t, 0)
	var own []string
	for _, o := range r.Values {
		own = append(own, o.Name+"="+o.Value.Reveal()+"|"+o.Conf+"|"+o.Overridden)
	}
	want := "NCCL_ALGO=Ring||/etc/nccl.conf NCCL_PROTO=LL|/etc/nccl.conf| NCCL_TOPO_FILE=/x\xff||/etc/nccl.conf"
	if got := strings.Join(own, " "); got != want {
		t.Errorf("it reports %q, want %q", got, want)
	}
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeReport(b)
	if err != nil || !reflect.DeepEqual(r, back) {
		t.Errorf("%v\n%+v\n%+v", err, r, back)
	}
	big := Report{Format: 1}
	for range 11 {
		big.Overrides = append(big.Overrides, Override{Name: "A", Value: NewValue("A", strings.Repeat("x", 100_000)), Kind: FromFlag, Exact: true})
	}
	if _, err := big.Encode(); err == nil || !strings.Contains(err.Error(), "ask for fewer variables") {
		t.Error(err)
	}
}

func TestDecodeReportRefuses(t *testing.T) {
	own := func(s string) string { return `{"format":1,"own":[` + s + `]}` }
	ask := func(s string) string { return `{"format":1,"asks":[` + s + `]}` }
	for name, text := range map[string]string{
		"nothing":             ``,
		"no format":           `{}`,
		"another format":      `{"format":2}`,
		"another form":        `{"format":1,"own":{}}`,
		"too long":            `{"format":1,"x":"` + strings.Repeat("x", MaxReport) + `"}`,
		"a bad host":          `{"format":1,"node":{"Host":"a\u001b[2J"}}`,
		"a long host":         `{"format":1,"node":{"Host":"` + strings.Repeat("x", 300) + `"}}`,
		"reserved":            own(`{"n":"RANK"}`),
		"no name":             own(`{"n":"A B"}`),
		"out of order":        own(`{"n":"B"},{"n":"A"}`),
		"twice":               own(`{"n":"A"},{"n":"A"}`),
		"a zero byte":         own(`{"n":"A","v":"AA=="}`),
		"no base64":           own(`{"n":"A","v":"!"}`),
		"a bad file":          own(`{"n":"A","c":"\n"}`),
		"a bad kind":          ask(`{"n":"A","kind":"first node"}`),
		"a reserved request":  ask(`{"n":"GORUN_SECRET","kind":"-x","whole":true}`),
		"a pattern of -x":     ask(`{"n":"A*","kind":"-x"}`),
		"a broken pattern":    ask(`{"n":"A[","kind":"--unset"}`),
		"to remove all":       ask(`{"n":"*","kind":"--unset"}`),
		"to remove none":      ask(`{"n":"","kind":"--unset"}`),
		"a pattern in full":   ask(`{"n":"A*","kind":"--unset","whole":true}`),
		"a value to unset":    ask(`{"n":"A","v":"QQ==","kind":"--unset","whole":true}`),
		"a file for one node": ask(`{"n":"A","kind":"env file","whole":true,"to":{"By":"role","Name":"x"}}`),
		"a bad target":        ask(`{"n":"A","kind":"-x","to":{"By":"moon","Name":"x"}}`),
		"a nameless target":   ask(`{"n":"A","kind":"-x","to":{"By":"host"}}`),
		"another host's form": ask(`{"n":"A","kind":"-x","to":{"By":"host","Name":"N1"}}`),
		"a bad place":         ask(`{"n":"A","kind":"-x","at":"\u0007"}`),
		"too many":            ask(strings.Repeat(`{"n":"A","kind":"-x"},`, maxOverrides) + `{"n":"A","kind":"-x"}`),
	} {
		if r, err := DecodeReport([]byte(text)); err == nil || strings.Contains(err.Error(), "\n") || len(err.Error()) > 500 {
			t.Errorf("%s: %v, %+v", name, err, r)
		}
	}
}

func TestAssignmentTravels(t *testing.T) {
	nodes := []fake{{env: []string{"HF_TOKEN=s3cret", "NCCL_ALGO=\xff"}, x: []string{"HF_TOKEN"}, unset: []string{"A", "NCCL_I*"}}, env("NCCL_PROTO=LL")}
	a := Unify(reports(t, nodes), Policy{}).Members[1]
	b, err := a.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if back, err := DecodeAssignment(b); err != nil || !reflect.DeepEqual(a, back) || len(a.Set) != 2 || len(a.Unset) != 3 {
		t.Errorf("%v\n%+v\n%+v", err, a, back)
	}
	for name, text := range map[string]string{
		"nothing":            ``,
		"no format":          `{}`,
		"too long":           `"` + strings.Repeat("x", MaxAssignment) + `"`,
		"reserved":           `{"format":1,"set":[{"n":"WORLD_SIZE","source":{"kind":"-x"}}]}`,
		"no source":          `{"format":1,"set":[{"n":"A"}]}`,
		"to unset its own":   `{"format":1,"unset":[{"name":"RANK","source":{"kind":"--unset"}}]}`,
		"a broken pattern":   `{"format":1,"unset":[{"name":"A[","source":{"kind":"--unset"}}]}`,
		"control characters": `{"format":1,"unset":[{"name":"A","source":{"kind":"--unset","rule":"\u001b"}}]}`,
	} {
		if a, err := DecodeAssignment([]byte(text)); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %+v", name, err, a)
		}
	}
}

func FuzzDecodeReport(f *testing.F) {
	for _, n := range []fake{{}, {env: []string{"NCCL_ALGO=1", "X_KEY=1"}, x: []string{"X_KEY", "node=1:NCCL_*"}, unset: []string{"A*"}, file: "A=1"}} {
		b, err := n.report(f, 1).Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := DecodeReport(data)
		if err != nil {
			return
		}
		b, err := r.Encode()
		if err != nil {
			return // longer than what it was read from, by base64 or names in full
		}
		back, err := DecodeReport(b)
		if err != nil || !reflect.DeepEqual(r, back) {
			t.Fatalf("%v\n%s\n%s", err, data, b)
		}
		// Other nodes accept the decision for any report.
		d := Unify([]Report{r, {Format: 1}, r}, Policy{})
		for _, a := range d.Members {
			b, err := a.Encode()
			if err != nil {
				continue
			}
			if _, err := DecodeAssignment(b); err != nil {
				t.Fatalf("%v\n%s\n%s", err, data, b)
			}
			NewBase([]string{"PATH=/bin"}).Apply(a).Explain(vars())
		}
		if text, err := json.Marshal(d.Differences); err != nil || bytes.ContainsAny(text, "\x1b\n") {
			t.Fatalf("%v %q", err, text)
		}
	})
}
