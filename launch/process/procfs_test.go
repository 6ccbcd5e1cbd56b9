package process

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const tail = " 0 -1 4194304 100 0 0 0 0 0 0 0 20 0 2 0 168481 3133440 379 18446744073709551615\n"

func TestParseStat(t *testing.T) {
	want := stat{pid: 7, state: 'S', parent: 3, group: 5, session: 4, flags: 4194304, threads: 2, start: 168481}
	for _, name := range []string{"cat", "", "a b", "a) R 1 1 1 (b", "))((", "line\nbreak) S 9", "\xff\x00"} {
		got, err := parseStat([]byte("7 (" + name + ") S 3 5 4" + tail))
		want.name = name
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", name, got, err)
		}
	}
	for _, line := range []string{
		"", "7", "7 (cat", "7 cat) S 3 5 4" + tail, ") 7 (cat S", "7 (cat) S 3 5 4", "7 (cat) SS 3 5 4" + tail,
		"x (cat) S 3 5 4" + tail, "7 (cat) S x 5 4" + tail, "-7 (cat) S 3 5 4" + tail,
		"7 (cat) S 99999999999 5 4" + tail, "7 (cat) S 3 5 4" + strings.Replace(tail, "4194304", "x", 1), "7 (cat) S 3 5 4" + strings.Replace(tail, "168481", "-1", 1),
	} {
		if s, err := parseStat([]byte(line)); err == nil {
			t.Errorf("%q is taken for %+v", line, s)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("7 (cat) S 3 5 4"+tail), "name", 1, 2)
	f.Add([]byte(") ( "), "a) S (b", -1, 1<<31-1)
	f.Fuzz(func(t *testing.T, line []byte, name string, parent, group int) {
		if s, err := parseStat(line); err == nil && s.pid <= 0 {
			t.Errorf("%q: pid %d", line, s.pid)
		}
		parent, group = int(int32(parent)), int(int32(group))
		s, err := parseStat(fmt.Appendf(nil, "12 (%s) R %d %d 1%s", name, parent, group, tail))
		if err != nil || s.name != name || s.parent != parent || s.group != group || s.state != 'R' {
			t.Errorf("%q %d %d: %+v, %v", name, parent, group, s, err)
		}
	})
}

func TestHasEnded(t *testing.T) {
	for _, tt := range []struct {
		s    stat
		want bool
	}{
		{stat{state: 'Z', threads: 1}, true},
		{stat{state: 'X'}, true},
		{stat{state: 'Z', threads: 3}, false}, // only the leading thread has ended
		{stat{state: 'S', threads: 1}, false},
	} {
		if tt.s.isZombie() != tt.want {
			t.Errorf("%+v: zombie %v", tt.s, tt.s.isZombie())
		}
	}
}

// tree writes a fake /proc: files by name, "self" as a link.
func tree(t *testing.T, self string, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Symlink(self, root+"/self"); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestChildren(t *testing.T) {
	stat := func(pid, parent int) string { return fmt.Sprintf("%d (a b) S %d 1 1%s", pid, parent, tail) }
	files := map[string]string{
		"2/stat": stat(2, 1), "3/stat": stat(3, 2), "4/stat": stat(4, 2), "5/stat": stat(5, 4), "6/stat": "broken",
		"version": "Linux", "tty/drivers": "",
	}
	lists := map[string]string{
		"thread-self/children": "",
		"2/task/2/children":    "3 ", "2/task/21/children": "4 junk -1 \n", "3/task/3/children": "",
		"4/task/4/children": "5 ", "5/task/50/comm": "", // thread 50 is ending: its list no longer exists
	}
	for _, withLists := range []bool{true, false} {
		all := map[string]string{}
		for name, text := range files {
			all[name] = text
		}
		if withLists {
			for name, text := range lists {
				all[name] = text
			}
		}
		fs, err := openProcfs(tree(t, "2", all), 2)
		if err != nil || fs.lists != withLists {
			t.Fatalf("%+v, %v", fs, err)
		}
		for pid, want := range map[int][]int{2: {3, 4}, 4: {5}, 3: nil, 5: nil, 77: nil} {
			got, err := fs.children(pid)
			slices.Sort(got)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("lists %v: children of %d: %v, %v; want %v", withLists, pid, got, err, want)
			}
		}
		var pids []int
		for _, id := range fs.descendants([]identity{{2, 168481}, {4, 1}}) {
			pids = append(pids, id.pid)
		}
		slices.Sort(pids)
		if !slices.Equal(pids, []int{3, 4, 5}) {
			t.Errorf("lists %v: descendants %v", withLists, pids)
		}
	}
}

func TestOpenProcfs(t *testing.T) {
	if _, err := openProcfs(tree(t, "9", nil), 2); err == nil || !strings.Contains(err.Error(), "pid namespace") {
		t.Errorf("another namespace's: %v", err)
	}
	if _, err := openProcfs(t.TempDir(), 2); err == nil || !strings.Contains(err.Error(), "mount") {
		t.Errorf("not mounted: %v", err)
	}
	long := tree(t, "2", map[string]string{"2/stat": strings.Repeat("x", 2*maxFile)})
	if _, err := readFile(long + "/2/stat"); err == nil || !strings.Contains(err.Error(), "longer") {
		t.Errorf("endless file: %v", err)
	}
}

// TestChildrenOfTheRealProc checks that the answers are the same on a kernel
// without lists of children.
func TestChildrenOfTheRealProc(t *testing.T) {
	b := newTestTable(t)
	if !b.fs.lists {
		t.Skip("this kernel has no lists of children")
	}
	for range 3 {
		b.start(Spec{Path: "/bin/sleep", Args: []string{"sleep", "1000"}})
	}
	one, err := b.fs.children(b.self)
	other, err2 := procfs{root: "/proc"}.children(b.self)
	slices.Sort(one)
	slices.Sort(other)
	if err != nil || err2 != nil || len(one) != 3 || !slices.Equal(one, other) {
		t.Errorf("%v, %v; %v, %v", one, err, other, err2)
	}
}
