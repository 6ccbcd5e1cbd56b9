package process

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestStartAll checks that several programs start in the order of their Specs and
// live on, and that no process starts after a failed start.
func TestStartAll(t *testing.T) {
	table := newTestTable(t).Table
	var specs []Spec
	var ins, outs, theirs []*os.File
	for range 8 {
		in, give, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		reader, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		ins, outs = append(ins, give), append(outs, reader)
		defer give.Close()
		defer reader.Close()
		theirs = append(theirs, in, out)
		specs = append(specs, Spec{Path: "/bin/cat", Stdin: in, Stdout: out, Death: syscall.SIGKILL})
	}
	// Death comes when this process ends, not when the caller's thread ends.
	var all []*Process
	var err error
	called := make(chan struct{})
	go func() {
		defer close(called)
		runtime.LockOSThread() // so the thread ends with this goroutine
		all, err = table.StartAll(specs)
	}()
	<-called
	for _, f := range theirs {
		f.Close() // an ended program prints nothing more
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range all {
		if p == nil {
			t.Fatalf("process %d is missing", i)
		}
		line := fmt.Sprintf("this is %d\n", i)
		if _, err := ins[i].WriteString(line); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(line))
		if _, err := io.ReadFull(outs[i], got); err != nil || string(got) != line {
			t.Errorf("process %d says %q, %v", i, got, err)
		}
	}
	for _, p := range all {
		if err := p.Signal(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		<-p.Done()
	}

	bad := make([]Spec, 100)
	for i := range bad {
		bad[i] = Spec{Path: "/bin/true"}
	}
	bad[3].Path = "/no/such/program"
	all, err = table.StartAll(bad)
	if err == nil || !strings.Contains(err.Error(), "/no/such/program") || all[3] != nil || all[len(all)-1] != nil {
		t.Errorf("%v, the last one: %v", err, all[len(all)-1])
	}
	for i, p := range all[:3] {
		if p == nil {
			t.Errorf("process %d was not started", i)
		}
	}
	for _, p := range all {
		if p != nil {
			<-p.Done()
		}
	}
}
