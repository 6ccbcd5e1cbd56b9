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
	"reflect"
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

// testJob is a job's dumps in the making: by rank, group and call.
type testJob struct {
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
func (j testJob) dumps(t *testing.T) []Dump {
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
			isP2P := strings.HasPrefix(name, "send") || strings.HasPrefix(name, "recv") || name == "coalesced"
			switch {
			case name == "coalesced": // has the number of the calls before it
			case isP2P:
				name = strings.Replace(name, "_", " ", 1)
				messages[group]++
			default:
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
		if err != nil || d.Rank != rank || d.Version != "2.10" {
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
		job  testJob
		want []string // of Verdict.String
	}{
		{"all ended", testJob{world, map[int][]string{0: {done}, 1: {done}, 2: {done}}}, nil},
		{
			"a root that has left",
			testJob{world, map[int][]string{0: {"world broadcast [4] completed a.py:3"}, 1: {"world broadcast [4] started a.py:3"}, 2: {}}},
			[]string{"rank 2 did not call broadcast [4] Float, number 1 of desc of world, in which rank 1 waits (step (a.py:3)); it made no call there"},
		},
		{
			"a rank skips",
			testJob{world, map[int][]string{0: {done, open}, 1: {done}, 2: {done, open}}},
			[]string{"rank 1 did not call all_reduce [4] Float, number 2 of desc of world, in which ranks 0 and 2 wait (step (a.py:3)); its last call there was all_reduce [4] Float, number 1 (step (a.py:3))"},
		},
		{
			"a rank never called",
			testJob{world, map[int][]string{0: {open}, 1: {}, 2: {open}}},
			[]string{"rank 1 did not call all_reduce [4] Float, number 1 of desc of world, in which ranks 0 and 2 wait (step (a.py:3)); it made no call there"},
		},
		{
			"other sizes",
			testJob{world, map[int][]string{0: {open}, 1: {open}, 2: {"world all_reduce [5] started b.py:9"}}},
			[]string{"rank 2 called all_reduce [5] Float (step (b.py:9)) as number 1 of desc of world, where ranks 0 and 1 called all_reduce [4] Float (step (a.py:3))"},
		},
		{
			"another call",
			testJob{world, map[int][]string{0: {done, open}, 1: {done, "world broadcast [4] started b.py:9"}, 2: {done, open}}},
			[]string{"rank 1 called broadcast [4] Float (step (b.py:9)) as number 2 of desc of world, where ranks 0 and 2 called all_reduce [4] Float (step (a.py:3))"},
		},
		{
			"sizes of a gather may differ",
			testJob{world, map[int][]string{0: {"world all_gather [4] started a.py:3"}, 1: {"world all_gather [5] started a.py:3"}, 2: {"world all_gather [4] started a.py:3"}}},
			[]string{"ranks 0, 1 and 2 are all in all_gather [4] Float, number 1 of desc of world (step (a.py:3)), and it does not end"},
		},
		{
			"no dump of one rank",
			testJob{world, map[int][]string{0: {open}, 2: {open}}},
			[]string{"rank 1 left no dump, and ranks 0 and 2 wait in all_reduce [4] Float, number 1 of desc of world (step (a.py:3))"},
		},
		{
			"nested groups",
			testJob{map[string][]int{"a": {0, 1}, "b": {1, 2}}, map[int][]string{
				0: {"a all_reduce [4] started a.py:1"}, 1: {"b all_reduce [4] started a.py:2"}, 2: {},
			}},
			[]string{
				"rank 2 did not call all_reduce [4] Float, number 1 of desc of b, in which rank 1 waits (step (a.py:2)); it made no call there",
				"rank 1 did not call all_reduce [4] Float, number 1 of desc of a, in which rank 0 waits (step (a.py:1)); it made no call there",
			},
		},
		{
			"groups in another order",
			testJob{map[string][]int{"a": {0, 1}, "b": {0, 1}}, map[int][]string{
				0: {"a all_reduce [4] started a.py:1"}, 1: {"b all_reduce [4] started a.py:2"},
			}},
			[]string{
				"ranks 0 and 1 wait for each other: rank 0 in all_reduce [4] Float, number 1 (step (a.py:1)); rank 1 in all_reduce [4] Float, number 1 (step (a.py:2))",
				"rank 1 did not call all_reduce [4] Float, number 1 of desc of a, in which rank 0 waits (step (a.py:1)); it made no call there",
				"rank 0 did not call all_reduce [4] Float, number 1 of desc of b, in which rank 1 waits (step (a.py:2)); it made no call there",
			},
		},
		{
			"two receives that wait for each other",
			testJob{world, map[int][]string{0: {"world recv_0<-1 [4] started a.py:5"}, 1: {"world recv_1<-0 [4] started a.py:7"}, 2: {}}},
			[]string{
				"ranks 0 and 1 wait for each other: rank 0 in recv 0<-1 [4] Float, number 1 (step (a.py:5)); rank 1 in recv 1<-0 [4] Float, number 1 (step (a.py:7))",
				"rank 1 did not call the other side of recv 0<-1 [4] Float of desc of world, in which rank 0 waits (step (a.py:5)); its last call there was recv 1<-0 [4] Float, number 1 (step (a.py:7))",
				"rank 0 did not call the other side of recv 1<-0 [4] Float of desc of world, in which rank 1 waits (step (a.py:7)); its last call there was recv 0<-1 [4] Float, number 1 (step (a.py:5))",
			},
		},
		{
			"other sizes that NCCL let pass",
			testJob{world, map[int][]string{
				0: {"world all_reduce [9] completed a.py:3", open}, 1: {"world all_reduce [4] completed a.py:3", open}, 2: {"world all_reduce [4] completed a.py:3"},
			}},
			[]string{"rank 0 called all_reduce [9] Float (step (a.py:3)) as number 1 of desc of world, where ranks 1 and 2 called all_reduce [4] Float (step (a.py:3))"},
		},
		{
			"a call behind another one",
			testJob{map[string][]int{"a": {0, 1}, "b": {1, 2}}, map[int][]string{
				0: {"a all_reduce [4] started a.py:1"}, 1: {"b all_reduce [4] started a.py:2", "a all_reduce [4] scheduled a.py:1"}, 2: {},
			}},
			[]string{
				"rank 2 did not call all_reduce [4] Float, number 1 of desc of b, in which rank 1 waits (step (a.py:2)); it made no call there",
				"ranks 0 and 1 are both in all_reduce [4] Float, number 1 of desc of a (step (a.py:1)), and it does not end",
			},
		},
		{
			"a receive from a rank without a dump",
			testJob{world, map[int][]string{0: {"world send_0->1 [4] started a.py:5"}, 1: {"world recv_1<-2 [4] started a.py:4"}}},
			[]string{
				"rank 2 left no dump, and rank 1 waits in recv 1<-2 [4] Float, number 1 of desc of world (step (a.py:4))",
				"rank 1 did not call the other side of send 0->1 [4] Float of desc of world, in which rank 0 waits (step (a.py:5)); its last call there was recv 1<-2 [4] Float, number 1 (step (a.py:4))",
			},
		},
		{
			"a batch of messages",
			testJob{map[string][]int{"world": {0, 1}}, map[int][]string{
				0: {"world send_0->1 [4] scheduled a.py:5", "world coalesced [0] completed a.py:6", "world send_0->1 [4] scheduled a.py:5", "world coalesced [0] scheduled a.py:6"},
				1: {"world recv_1<-0 [4] scheduled a.py:5", "world coalesced [0] completed a.py:6"},
			}},
			[]string{"rank 1 did not call the other side of send 0->1 [4] Float of desc of world, in which rank 0 waits (step (a.py:5)); its last call there was recv 1<-0 [4] Float, number 1 (step (a.py:5))"},
		},
		{
			"a receive without a send",
			testJob{world, map[int][]string{0: {"world recv_0<-2 [4] started a.py:5"}, 1: {}, 2: {}}},
			[]string{"rank 2 did not call the other side of recv 0<-2 [4] Float of desc of world, in which rank 0 waits (step (a.py:5)); it made no call there"},
		},
		{
			"a receive with its send",
			testJob{world, map[int][]string{0: {"world recv_0<-2 [4] started a.py:5"}, 1: {}, 2: {"world send_2->0 [4] started a.py:5"}}},
			[]string{"ranks 0 and 2 are both in recv 0<-2 [4] Float, number 1 of desc of world (step (a.py:5)), and it does not end"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			dumps := tt.job.dumps(t)
			for _, v := range Compare(dumps) {
				got = append(got, v.String())
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			got = nil
			for _, v := range Compare(sent(t, dumps).Dumps) {
				got = append(got, v.String())
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("between nodes: got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// sent returns dumps as another node gets them.
func sent(t *testing.T, dumps []Dump) Answer {
	t.Helper()
	body, err := json.Marshal(NewAnswer(dumps, nil))
	if err != nil || len(body) > maxAnswer {
		t.Fatalf("%d bytes, %v", len(body), err)
	}
	a, err := DecodeAnswer(body)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestRealDumps compares dumps that torch 2.11 wrote of jobs that hung: one of rank 2's
// faults each, in data parallel, fully sharded, tensor parallel and pipeline jobs.
func TestRealDumps(t *testing.T) {
	for _, tt := range []struct {
		folder, first string
		verdicts      int
	}{
		{"batch-skip", "rank 2 did not call the other side of send 1->2 [1048576] Float of default_pg, in which rank 1 waits (batch (programs.py:178)); its last call there was recv 2<-1 [1048576] Float, number 6 (batch (programs.py:178))", 3},
		{"ddp-other", "rank 2 called broadcast [1048576] Float (evaluate (programs.py:107)) as number 18 of default_pg, where ranks 0, 1 and 3 called all_reduce [263168] Float", 1},
		{"fsdp-sleep", "rank 2 did not call _all_gather_base [16448] Float, number 79 of default_pg, in which ranks 0, 1 and 3 wait (train (programs.py:92)); its last call there was all_reduce [] Float, number 78 (report (programs.py:115))", 1},
		{"grid-skip", "rank 2 did not call all_reduce [1048576] Float, number 7 of mesh_data, in which rank 0 waits (backward (programs.py:145)); its last call there was all_reduce [1048576] Float, number 6 (backward (programs.py:145))", 3},
		{"pipeline-stop", "rank 2 left no dump, and rank 1 waits in send 1->2 [1048576] Float, number 20 of default_pg (pipeline (programs.py:158))", 3},
	} {
		dumps := readAll(t, filepath.Join("testdata", tt.folder, "*"))
		for name, dumps := range map[string][]Dump{"whole": dumps, "between nodes": sent(t, dumps).Dumps} {
			got := Compare(dumps)
			if len(got) != tt.verdicts || got[0].String() != tt.first || got[0].Follows || !slices.Equal(got[0].Ranks(), []int{2}) {
				t.Errorf("%s, %s: %d verdicts, %v", tt.folder, name, len(got), got)
			}
			for _, v := range got {
				if !v.Follows && !slices.Equal(v.Ranks(), []int{2}) {
					t.Errorf("%s, %s: a cause is not rank 2's: %v", tt.folder, name, v)
				}
			}
		}
	}
}

// readAll reads the dumps of a pattern.
func readAll(t *testing.T, pattern string) []Dump {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %v, %v", pattern, names, err)
	}
	var all []Dump
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Read(name, f)
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, d)
	}
	return all
}

// TestRealDumpsAsPython compares the reader with Python's pickle on all values of real
// dumps. DUMPS names more of them.
func TestRealDumpsAsPython(t *testing.T) {
	pattern := filepath.Join("testdata", "*", "*")
	if more := os.Getenv("DUMPS"); more != "" {
		pattern = more
	}
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %v, %v", pattern, names, err)
	}
	theirs := strings.Split(strings.TrimSpace(string(python(t, `
import json, pickle, sys
for name in sys.argv[1:]:
    print(json.dumps(pickle.load(open(name, "rb")), sort_keys=True))
`, names...))), "\n")
	for i, name := range names {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		v, err := unpickle(f)
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		mine, _ := json.Marshal(plain(v))
		var want any
		if err := json.Unmarshal([]byte(theirs[i]), &want); err != nil {
			t.Fatal(err)
		}
		var got any
		_ = json.Unmarshal(mine, &got)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s differs", name)
		}
	}
	t.Logf("%d dumps are equal", len(names))
}

// TestAnswerIsBounded checks that a node of many ranks and groups keeps fewer calls and
// its answer its bound, with each rank's open call.
func TestAnswerIsBounded(t *testing.T) {
	var dumps []Dump
	for rank := range 16 {
		d := Dump{Rank: rank, Groups: map[string]Group{}}
		for g := range 20 {
			id := fmt.Sprint(g)
			d.Groups[id] = Group{Name: id, Desc: "a group with a long description", Ranks: "0-1023"}
			for n := range 100 {
				c := Call{Group: id, Seq: n + 1, Name: "nccl:all_reduce", Sizes: "[1024 1024]", Types: "Float", State: Completed, Frames: []Frame{{"train.py", 12, "step"}}}
				if n > 90 && g == 3 {
					c.State = Scheduled
				}
				d.Calls = append(d.Calls, c)
			}
		}
		dumps = append(dumps, d)
	}
	a := sent(t, dumps)
	if len(a.Dumps) != 16 || len(a.Missing) != 0 {
		t.Fatalf("%d dumps, missing %v", len(a.Dumps), a.Missing)
	}
	for _, d := range a.Dumps {
		if i := slices.IndexFunc(d.Calls, Call.isOpen); i < 0 || d.Calls[i].Seq != 92 {
			t.Errorf("rank %d: its first open call is not there", d.Rank)
		}
	}
	if _, err := DecodeAnswer([]byte(`{"dumps":[{"rank":-1}]}`)); err == nil {
		t.Error("an answer of rank -1 is taken")
	}
}

// TestRankSet checks both directions, and what is no set.
func TestRankSet(t *testing.T) {
	for _, list := range [][]int{{0}, {0, 1, 2, 3}, {3, 1, 2, 7}, {0, 8, 16}} {
		if got := NewRankSet(list).list(100); !slices.Equal(got, list) {
			t.Errorf("%v: %q, %v", list, NewRankSet(list), got)
		}
	}
	for _, bad := range []RankSet{"", "x", "3-1", "0-99999999999", "-1", "0-100"} {
		if got := bad.list(100); got != nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

// TestWhere checks that the line of the program is found between those of torch and Python.
func TestWhere(t *testing.T) {
	for _, tt := range []struct {
		frames []Frame
		want   string
	}{
		{[]Frame{{"/venv/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", 1, "all_reduce"}, {"/usr/lib/python3.12/contextlib.py", 2, "inner"}, {"/home/u/torch/train.py", 3, "step"}}, "step (train.py:3)"},
		{[]Frame{{"/src/pytorch/torch/distributed/c10d_logger.py", 1, "wrapper"}, {"/venv/lib/python3.12/site-packages/megatron/core/tensor.py", 9, "reduce"}}, "reduce (tensor.py:9)"},
		{[]Frame{{"<frozen runpy>", 1, "_run"}, {"x.cpp", 2, ""}}, ""},
		{nil, ""},
	} {
		if got := (Call{Frames: tt.frames}).Where(); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.frames, got, tt.want)
		}
	}
}

// TestSiblings checks that of two ranks that called different things the one is suspected
// whose call the groups of the same kind did not make.
func TestSiblings(t *testing.T) {
	call := func(sizes string) Call {
		return Call{Group: "g", Seq: 7, Name: "nccl:all_reduce", Sizes: sizes, Types: "Float", State: Scheduled}
	}
	dump := func(rank int, ranks RankSet, sizes string) Dump {
		return Dump{Rank: rank, Groups: map[string]Group{"g": {Name: string(ranks), Desc: "mesh_tensor", Ranks: ranks}}, Calls: []Call{call(sizes)}}
	}
	got := Compare([]Dump{dump(0, "0-1", "[4]"), dump(1, "0-1", "[4]"), dump(2, "2-3", "[9]"), dump(3, "2-3", "[4]")})
	if len(got) != 2 || got[0].Kind != Other || !slices.Equal(got[0].Ranks(), []int{2}) {
		t.Errorf("%v", got)
	}
}

// TestFollows checks that a group whose suspect waits in another group is marked as a
// consequence and comes last.
func TestFollows(t *testing.T) {
	j := testJob{map[string][]int{"a": {0, 1}, "b": {1, 2}}, map[int][]string{
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
			sent(t, []Dump{d})
			for _, v := range Compare([]Dump{d, {Rank: 0, Groups: d.Groups}}) {
				_ = v.String()
			}
		}
	})
}

func FuzzDecodeAnswer(f *testing.F) {
	f.Add([]byte(`{"dumps":[{"rank":1,"groups":{"0":{"name":"0","ranks":"0-3"}},"calls":[{"g":"0","n":1,"f":"nccl:all_reduce","e":"scheduled"}]}],"missing":[{"rank":2,"why":"no pipe"}]}`))
	f.Add([]byte(`{"dumps":[{"rank":1,"groups":{"0":{"name":"0","ranks":"0-3"}},"calls":[{"g":"0","n":1,"p":true,"f":"nccl:recv 1<-2"},{"g":"0","n":1,"p":true,"f":"nccl:send 1->0"}]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := DecodeAnswer(b)
		if err == nil {
			for _, v := range Compare(a.Dumps) {
				_, _, _ = v.String(), v.Collective(), v.Where()
			}
		}
	})
}
