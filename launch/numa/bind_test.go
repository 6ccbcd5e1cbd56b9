package numa

import (
	"bufio"
	"context"
	"errors"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/launch/process"
)

// runBound starts a real child through the table, as a worker is started, and
// returns what the child reports of itself.
func runBound(t *testing.T, table *process.Table, b Binding) (status, maps string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	child, err := table.Start(process.Spec{
		Path: "/bin/sh", Args: []string{"sh", "-c", "cat /proc/self/status; echo; cat /proc/self/numa_maps 2>/dev/null; exit 0"},
		Stdout: w, Session: true, Around: b.Around(),
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	r.SetReadDeadline(time.Now().Add(20 * time.Second))
	var out strings.Builder
	for lines := bufio.NewScanner(r); lines.Scan(); {
		out.WriteString(lines.Text() + "\n")
	}
	select {
	case <-child.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the child does not end within 20 s")
	}
	status, maps, _ = strings.Cut(out.String(), "\n\n")
	return status, maps
}

func open(t *testing.T) *process.Table {
	t.Helper()
	table, err := process.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := table.Stop(context.Background(), process.StopOptions{}); err != nil {
			t.Error(err)
		}
		table.Close()
	})
	return table
}

func field(status, name string) string {
	m := regexp.MustCompile(`(?m)^` + name + `:\s*(\S*)$`).FindStringSubmatch(status)
	if m == nil {
		return ""
	}
	return m[1]
}

func TestBind(t *testing.T) {
	runtime.LockOSThread() // the test then looks at the thread that was bound
	defer runtime.UnlockOSThread()
	cpus, memory, err := Allowed()
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Fatal(err)
	}
	if got := field(string(status), "Cpus_allowed_list"); got != cpus.String() {
		t.Errorf("CPUs %v are allowed, and /proc says %s", cpus, got)
	}
	if got := field(string(status), "Mems_allowed_list"); memory != nil && got != memory.String() {
		t.Errorf("memory of nodes %v is allowed, and /proc says %s", memory, got)
	}
	if len(cpus) < 2 && os.Getenv("CI") == "true" {
		t.Fatal("a binding cannot be seen with one CPU")
	} else if len(cpus) < 2 {
		t.Skip("a binding cannot be seen with one CPU")
	}

	table := open(t)
	var policy unix.CPUSet
	before, policyErr := memoryPolicy(&policy, 0)
	for _, own := range []Set{cpus[:1], cpus[1:2], cpus} {
		b := Binding{CPUs: own, Bound: true}
		if len(memory) > 0 {
			b.Memory = memory[:1]
		}
		status, maps := runBound(t, table, b)
		if got := field(status, "Cpus_allowed_list"); got != own.String() {
			t.Errorf("bound to CPUs %v, the child has %q", own, got)
		}
		if may := unix.SetMemPolicy(before, &policy) == nil && policyErr == nil; may && b.Memory != nil && maps != "" && !strings.Contains(maps, " prefer:"+b.Memory.String()) {
			t.Errorf("memory of node %v is preferred, and the child has\n%s", b.Memory, maps)
		}
		again, _, err := Allowed()
		if err != nil || !slices.Equal(again, cpus) {
			t.Errorf("afterwards the thread has CPUs %v instead of %v (%v)", again, cpus, err)
		}
		var now unix.CPUSet
		if mode, err := memoryPolicy(&now, 0); err == nil && (mode != before || now != policy) {
			t.Errorf("afterwards the thread has memory policy %d %v instead of %d %v", mode, now, before, policy)
		}
	}

	status2, maps := runBound(t, table, Binding{CPUs: cpus})
	if got := field(status2, "Cpus_allowed_list"); got != cpus.String() || strings.Contains(maps, "prefer") {
		t.Errorf("not bound, and the child has CPUs %s and\n%s", got, maps)
	}
}

// TestBindStaysOnItsThread shows that the runtime's threads do not inherit the
// child's binding.
func TestBindStaysOnItsThread(t *testing.T) {
	cpus, _, err := Allowed()
	if err != nil {
		t.Fatal(err)
	}
	b := Binding{CPUs: cpus[:1], Bound: true}
	err = b.Around()(func() error {
		seen := make(chan Set)
		for range 8 {
			go func() { // on another thread, because this thread is locked
				runtime.LockOSThread()
				own, _, _ := Allowed()
				seen <- own
			}()
		}
		for range 8 {
			if own := <-seen; !slices.Equal(own, cpus) {
				t.Errorf("a thread has CPUs %v instead of %v", own, cpus)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestBindFails(t *testing.T) {
	called := false
	err := Binding{CPUs: Set{maxID - 1}, Bound: true}.bind(func() error { called = true; return nil })
	if err == nil || called || !strings.Contains(err.Error(), "cannot bind to CPUs 8191: sched_setaffinity") {
		t.Errorf("%v, started: %v", err, called)
	}
	failed := errors.New("no such program")
	cpus, _, _ := Allowed()
	if err := (Binding{CPUs: cpus, Bound: true}).bind(func() error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
}

// BenchmarkStart measures what a binding costs at a start: compare with
// unbound.
func BenchmarkStart(b *testing.B) {
	cpus, memory, err := Allowed()
	if err != nil {
		b.Fatal(err)
	}
	for name, binding := range map[string]Binding{"unbound": {}, "bound": {CPUs: cpus[:1], Memory: memory, Bound: true}} {
		around := binding.Around()
		if around == nil {
			around = func(start func() error) error { return start() }
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := around(func() error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
