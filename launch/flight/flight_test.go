package flight

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// python runs a script by the system's Python, and skips the test without one.
func python(t *testing.T, script string, args ...string) []byte {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs python3")
		}
		t.Skip("needs python3")
	}
	out, err := exec.Command(path, append([]string{"-c", script}, args...)...).Output()
	if err != nil {
		t.Fatalf("python3: %v", err)
	}
	return out
}

// TestUnpickleAsPython compares the reader with Python's own pickle on random values of
// the shapes that a dump has.
func TestUnpickleAsPython(t *testing.T) {
	dir := t.TempDir()
	python(t, `
import json, pickle, random, sys
random.seed(20261123)
def value(depth):
    kinds = [lambda: None, lambda: True, lambda: False, lambda: random.choice([0, 1, 255, 256, 65535, 65536, -1, 2**31, -2**31, 2**40, -2**62]),
             lambda: random.choice([0.5, -1e300, 3.0]), lambda: random.choice(["", "a", "ä" * 200, "nccl:all_reduce"])]
    if depth:
        kinds += [lambda: [value(depth - 1) for _ in range(random.randrange(5))], lambda: tuple(value(depth - 1) for _ in range(random.randrange(5))),
                  lambda: {random.choice("abcdef") * random.randrange(1, 4): value(depth - 1) for _ in range(random.randrange(5))}]
    return random.choice(kinds)()
for i in range(200):
    v = {"v": value(4)}
    shared = [1, 2]
    v["twice"] = [shared, shared]
    pickle.dump(v, open("%s/%d.pickle" % (sys.argv[1], i), "wb"), protocol=2)
    json.dump(v, open("%s/%d.json" % (sys.argv[1], i), "w"))
`, dir)
	for i := range 200 {
		b, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(i, ".pickle")))
		if err != nil {
			t.Fatal(err)
		}
		v, err := unpickle(bytes.NewReader(b))
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		want, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(i, ".json")))
		if err != nil {
			t.Fatal(err)
		}
		var theirs any
		if err := json.Unmarshal(want, &theirs); err != nil {
			t.Fatal(err)
		}
		mine, _ := json.Marshal(plain(v))
		other, _ := json.Marshal(theirs)
		var again any
		_ = json.Unmarshal(mine, &again) // numbers as floats, as in other
		mine, _ = json.Marshal(again)
		if !bytes.Equal(mine, other) {
			t.Errorf("%d: %s, want %s", i, mine, other)
		}
	}
}

// plain returns a value as encoding/json has it.
func plain(v any) any {
	switch v := v.(type) {
	case *list:
		l := []any{}
		for _, item := range v.items {
			l = append(l, plain(item))
		}
		return l
	case dict:
		d := map[string]any{}
		for k, item := range v {
			d[k] = plain(item)
		}
		return d
	}
	return v
}

// TestHostilePickles checks that a pickle that calls, refers or nests as no recorder
// does gets an error.
func TestHostilePickles(t *testing.T) {
	for name, p := range map[string]string{
		"a call":               "\x80\x02cos\nsystem\nX\x02\x00\x00\x00id\x85R.",
		"empty":                "",
		"cut off":              "\x80\x02}q\x00X\x10\x00\x00\x00abc",
		"a huge string":        "\x80\x02X\xff\xff\xff\xff.",
		"no value":             ".",
		"a mark as a value":    "(.",
		"no mark":              "\x80\x02]e.",
		"append to a number":   "\x80\x02K\x01K\x02a.",
		"key of a number":      "\x80\x02K\x01K\x02K\x03s.",
		"a list as a key":      "\x80\x02}]K\x03s.",
		"unknown in the memo":  "\x80\x02h\x07.",
		"a reduce of a number": "\x80\x02K\x01K\x02\x85R.",
		"an object":            "\x80\x02}b.",
		"a name without end":   "\x80\x02ctorch",
	} {
		if v, err := unpickle(strings.NewReader(p)); err == nil {
			t.Errorf("%s: %v", name, v)
		}
	}
	many := "\x80\x02]" + strings.Repeat("N", maxValues+1)
	if _, err := unpickle(strings.NewReader(many)); err != errValues {
		t.Errorf("many values: %v", err)
	}
}

// job is a job's dumps in the making: by rank, group and call.
type job struct {
	groups map[string][]int
	calls  map[int][]string // "group name state where"; the number is counted
}

// pickled returns a value as a pickle of protocol 2: the inverse of unpickle.
func pickled(v any) []byte { return append(appendPickle([]byte{0x80, 2}, v), '.') }

func appendPickle(b []byte, v any) []byte {
	items := func(open, end byte, each func(item func(any))) {
		b = append(b, open, '(')
		each(func(v any) { b = appendPickle(b, v) })
		b = append(b, end)
	}
	switch v := v.(type) {
	case bool:
		return append(b, map[bool]byte{true: 0x88, false: 0x89}[v])
	case int:
		return binary.LittleEndian.AppendUint32(append(b, 'J'), uint32(v))
	case string:
		return append(binary.LittleEndian.AppendUint32(append(b, 'X'), uint32(len(v))), v...)
	case []any:
		items(']', 'e', func(item func(any)) {
			for _, x := range v {
				item(x)
			}
		})
	case map[string]any:
		items('}', 'u', func(item func(any)) {
			for k, x := range v {
				item(k)
				item(x)
			}
		})
	}
	return b
}

// dumps returns the dumps of a job as torch writes them.
func (j job) dumps(t *testing.T) []Dump {
	t.Helper()
	names := slices.Sorted(maps.Keys(j.groups))
	config := map[string]any{}
	for i, name := range names {
		ranks, _ := json.Marshal(j.groups[name])
		config[fmt.Sprint(i)] = map[string]any{"name": name, "desc": "desc of " + name, "ranks": string(ranks)}
	}
	var all []Dump
	for _, rank := range slices.Sorted(maps.Keys(j.calls)) {
		collectives, messages, entries := map[string]int{}, map[string]int{}, []any{}
		for i, c := range j.calls[rank] {
			var group, name, size, state, file string
			var line int
			if _, err := fmt.Sscanf(strings.ReplaceAll(c, ":", " "), "%s %s %s %s %s %d", &group, &name, &size, &state, &file, &line); err != nil {
				t.Fatal(err)
			}
			isP2P := strings.HasPrefix(name, "send") || strings.HasPrefix(name, "recv")
			if isP2P {
				name = strings.Replace(name, "_", " ", 1)
				messages[group]++
			} else {
				collectives[group]++
			}
			elements, _ := strconv.Atoi(strings.Trim(size, "[]"))
			entries = append(entries, map[string]any{
				"record_id": i, "pg_id": slices.Index(names, group), "process_group": []any{group, "desc of " + group},
				"collective_seq_id": collectives[group], "p2p_seq_id": messages[group], "is_p2p": isP2P,
				"profiling_name": "nccl:" + name, "input_sizes": []any{[]any{elements}}, "input_dtypes": []any{"Float"}, "state": state,
				"frames": []any{
					map[string]any{"filename": "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", "line": 2810, "name": name},
					map[string]any{"filename": "/home/u/" + file, "line": line, "name": "step"},
				},
			})
		}
		b := pickled(map[string]any{"version": "2.10", "entries": entries, "pg_config": config})
		if !IsDump(b) {
			t.Errorf("not recognised: %q", b[:8])
		}
		d, err := Read(fmt.Sprint("dump_", rank), bytes.NewReader(b))
		if err != nil || d.Rank != rank || !d.Complete || d.Version != "2.10" {
			t.Fatalf("rank %d: %+v, %v", rank, d, err)
		}
		all = append(all, d)
	}
	return all
}

// TestCompare has jobs with one rank at fault each.
func TestCompare(t *testing.T) {
	const done, open = "world all_reduce [4] completed a.py:3", "world all_reduce [4] started a.py:3"
	world := map[string][]int{"world": {0, 1, 2}}
	for _, tt := range []struct {
		name string
		job  job
		want []string // of Verdict.String
	}{
		{"all ended", job{world, map[int][]string{0: {done}, 1: {done}, 2: {done}}}, nil},
		{
			"a root that has left",
			job{world, map[int][]string{0: {"world broadcast [4] completed a.py:3"}, 1: {"world broadcast [4] started a.py:3"}, 2: {}}},
			[]string{"rank 2 did not call broadcast [4] Float, number 1 of desc of world, in which rank 1 waits (step (a.py:3)); it made no call there"},
		},
		{
			"a rank skips",
			job{world, map[int][]string{0: {done, open}, 1: {done}, 2: {done, open}}},
			[]string{"rank 1 did not call all_reduce [4] Float, number 2 of desc of world, in which ranks 0 and 2 wait (step (a.py:3)); its last call there was all_reduce [4] Float, number 1 (step (a.py:3))"},
		},
		{
			"a rank never called",
			job{world, map[int][]string{0: {open}, 1: {}, 2: {open}}},
			[]string{"rank 1 did not call all_reduce [4] Float, number 1 of desc of world, in which ranks 0 and 2 wait (step (a.py:3)); it made no call there"},
		},
		{
			"other sizes",
			job{world, map[int][]string{0: {open}, 1: {open}, 2: {"world all_reduce [5] started b.py:9"}}},
			[]string{"rank 2 called all_reduce [5] Float (step (b.py:9)) as number 1 of desc of world, where ranks 0 and 1 called all_reduce [4] Float (step (a.py:3))"},
		},
		{
			"another call",
			job{world, map[int][]string{0: {done, open}, 1: {done, "world broadcast [4] started b.py:9"}, 2: {done, open}}},
			[]string{"rank 1 called broadcast [4] Float (step (b.py:9)) as number 2 of desc of world, where ranks 0 and 2 called all_reduce [4] Float (step (a.py:3))"},
		},
		{
			"sizes of a gather may differ",
			job{world, map[int][]string{0: {"world all_gather [4] started a.py:3"}, 1: {"world all_gather [5] started a.py:3"}, 2: {"world all_gather [4] started a.py:3"}}},
			[]string{"ranks 0, 1 and 2 are all in all_gather [4] Float, number 1 of desc of world (step (a.py:3)), and it does not end"},
		},
		{
			"no dump of one rank",
			job{world, map[int][]string{0: {open}, 2: {open}}},
			[]string{"rank 1 left no dump, and ranks 0 and 2 wait in all_reduce [4] Float, number 1 of desc of world (step (a.py:3))"},
		},
		{
			"nested groups",
			job{map[string][]int{"a": {0, 1}, "b": {1, 2}}, map[int][]string{
				0: {"a all_reduce [4] started a.py:1"}, 1: {"b all_reduce [4] started a.py:2"}, 2: {},
			}},
			[]string{
				"rank 2 did not call all_reduce [4] Float, number 1 of desc of b, in which rank 1 waits (step (a.py:2)); it made no call there",
				"rank 1 did not call all_reduce [4] Float, number 1 of desc of a, in which rank 0 waits (step (a.py:1)); it made no call there",
			},
		},
		{
			"a receive without a send",
			job{world, map[int][]string{0: {"world recv_0<-2 [4] started a.py:5"}, 1: {}, 2: {}}},
			[]string{"rank 2 did not call the other side of recv 0<-2 [4] Float of desc of world, in which rank 0 waits (step (a.py:5)); it made no call there"},
		},
		{
			"a receive with its send",
			job{world, map[int][]string{0: {"world recv_0<-2 [4] started a.py:5"}, 1: {}, 2: {"world send_2->0 [4] started a.py:5"}}},
			nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, v := range Compare(tt.job.dumps(t)) {
				got = append(got, v.String())
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// TestFollows checks that a group whose suspect waits in another group is marked as a
// consequence and comes last.
func TestFollows(t *testing.T) {
	j := job{map[string][]int{"a": {0, 1}, "b": {1, 2}}, map[int][]string{
		0: {"a all_reduce [4] started a.py:1"}, 1: {"b all_reduce [4] started a.py:2"}, 2: {},
	}}
	got := Compare(j.dumps(t))
	if len(got) != 2 || got[0].Follows || got[0].Suspects[0].Rank != 2 || !got[1].Follows || got[1].Suspects[0].Rank != 1 {
		t.Errorf("%+v", got)
	}
}

func TestRankOfName(t *testing.T) {
	for name, want := range map[string]int{"/x/nccl_trace_rank_12": 12, "dump_0": 0, "dump": -1, "dump_99999999999": -1} {
		if rank, err := rankOf(name); (err == nil) != (want >= 0) || err == nil && rank != want {
			t.Errorf("%s: %d, %v", name, rank, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("\x80\x02}q\x00(X\x07\x00\x00\x00versionX\x03\x00\x00\x002.4X\x07\x00\x00\x00entries]q\x01}q\x02X\x05\x00\x00\x00stateX\x07\x00\x00\x00startedsau."))
	f.Add([]byte("\x80\x02ctorch.jit._pickle\nbuild_intlist\n](K\x01K\x02e\x85R."))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := Read("dump_1", bytes.NewReader(b))
		if err == nil {
			for _, v := range Compare([]Dump{d, {Rank: 0, Groups: d.Groups}}) {
				_ = v.String()
			}
		}
	})
}
