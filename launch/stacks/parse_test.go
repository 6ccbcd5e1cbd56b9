package stacks

import (
	"slices"
	"strings"
	"testing"
)

const faulthandlerText = `Fatal Python error: Aborted

Thread 0x00007f77217146c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 975 in run
  File "/usr/lib/python3.11/threading.py", line 995 in _bootstrap

Current thread 0x00007f77219cf040 (most recent call first):
  File "/home/u/data.py", line 13 in load_data
  File "/home/u/train.py", line 88 in step
  File "/home/u/train.py", line 90 in <module>

Extension modules: numpy.core._multiarray_umath, torch._C (total: 2)
`

const pySpyText = `Process 1234: python train.py
Python v3.11.2 (/usr/bin/python3.11)

Thread 1240 (active): "Thread-1 (work)"
    run (/usr/lib/python3.11/threading.py:975)
Thread 1234 (idle): "MainThread"
    wrapper (/usr/lib/python3/dist-packages/torch/distributed/c10d_logger.py:83)
    all_reduce (/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py:1541)
    step (/home/u/train.py:88)
    <module> (/home/u/train.py:90)
`

const goText = `goroutine 1 [chan receive, 2 minutes]:
main.main()
	/home/u/train/main.go:20 +0x1d

goroutine 7 [select]:
github.com/gorun/gorun/worker/tcp.(*Mesh).wait(0xc000102000)
	/root/go/pkg/mod/github.com/gorun/gorun@v1/worker/tcp/mesh.go:100 +0x44
github.com/gorun/gorun/worker.AllReduce[...]({0x1, 0x2}, 0xc000100000, {0xc000012340, 0x4, 0x4}, 0x0)
	/root/go/pkg/mod/github.com/gorun/gorun@v1/worker/collectives.go:31 +0x88
main.(*trainer).step(0xc000104000)
	/home/u/train/step.go:88 +0x99
created by main.main in goroutine 1
	/home/u/train/main.go:12 +0x77

goroutine 9 [sleep]:
time.Sleep(0x3b9aca00)
	/usr/local/go/src/runtime/time.go:300 +0xf2
main.heartbeat()
	/home/u/train/beat.go:5 +0x1
`

const gdbText = `0x00007f1214089dd0 in __libc_pause () at ../sysdeps/unix/sysv/linux/pause.c:29
29	../sysdeps/unix/sysv/linux/pause.c: No such file or directory.

Thread 1 (Thread 0x7f1213fb3740 (LWP 16405) "h"):
#0  0x00007f1214089dd0 in __libc_pause () at ../sysdeps/unix/sysv/linux/pause.c:29
#1  0x00007f1214000000 in MPI_Allreduce () from /usr/lib/libmpi.so.40
#2  0x0000559716802149 in load (x=3) at h.c:2
#3  0x000055971680215c in main () at h.c:3
[Inferior 1 (process 16405) detached]
`

const euStackText = `PID 16405 - process
TID 16405:
#0  0x00007f1214089dd0 clock_nanosleep@@GLIBC_2.17
    ../sysdeps/unix/sysv/linux/clock_nanosleep.c:48:12
#1  0x0000559716802149 - 1 load
    /home/u/h.c:2:18
#2  0x000055971680215c - 1 main
    /home/u/h.c:3:20
`

func TestParsers(t *testing.T) {
	for _, tc := range []struct {
		name  string
		parse func(string) []Frame
		text  string
		want  string
	}{
		{"faulthandler", ParseFaulthandler, faulthandlerText, "in load_data at data.py:13"},
		{"faulthandler of 3.14", ParseFaulthandler, strings.Replace(faulthandlerText, "cf040 (most", "cf040 [python] (most", 1), "in load_data at data.py:13"},
		{"py-spy", parsePySpy, pySpyText, "in all_reduce at train.py:88"},
		{"go", ParseGo, goText, "in AllReduce at step.go:88"},
		{"go without a collective", ParseGo, strings.Replace(goText, "worker.AllReduce", "worker.help", 1), "in main.(*trainer).step at step.go:88"},
		{"gdb", parseGDB, gdbText, "in MPI_Allreduce at h.c:2"},
		{"eu-stack", parseEuStack, euStackText, "in load at h.c:2"},
		{"nothing", parseGDB, "No stack.\n", "at a place that is not known"},
	} {
		s := Stack{Frames: tc.parse(tc.text)}
		s.Clean()
		if got := s.Place().String(); got != tc.want {
			t.Errorf("%s: %q, want %q\n%v", tc.name, got, tc.want, s.Frames)
		}
	}
}

func TestOwnFiles(t *testing.T) {
	for file, want := range map[string]bool{
		"/home/u/train.py":                 true,
		"train.py":                         true,
		"<string>":                         true,
		"<frozen runpy>":                   false,
		"/usr/lib/python3.11/threading.py": false,
		"/opt/conda/lib/python3.10/site-packages/torch/nn/module.py":   false,
		"/usr/lib/python3/dist-packages/torch/distributed/launcher.py": false,
		"/opt/pytorch/pytorch/torch/distributed/distributed_c10d.py":   false,
		"/home/u/torch/train.py":    true,
		"/home/u/venv/bin/torchrun": false,
	} {
		if got := ownPython(file); got != want {
			t.Errorf("ownPython(%q) = %v", file, got)
		}
	}
	for function, want := range map[string]bool{
		"main.main":                                          true,
		"main.(*trainer).step":                               true,
		"example.com/u/train.Step[...]":                      true,
		"runtime.gopark":                                     false,
		"sync.(*WaitGroup).Wait":                             false,
		"internal/poll.(*FD).Read":                           false,
		"github.com/gorun/gorun/worker.AllReduce[...]":       false,
		"github.com/gorun/gorun/worker/shm.(*Node).wait":     false,
		"github.com/gorun/gorun/examples/train/model.Step":   true,
		"github.com/gorun/gorun/worker.(*World).run.func1.1": false,
	} {
		if got := ownGo(function, "/x/y.go"); got != want {
			t.Errorf("ownGo(%q) = %v", function, got)
		}
	}
}

func TestParseSyscall(t *testing.T) {
	file := func(fd int) string { return "/tmp/fifo" + itoa(fd) }
	for line, want := range map[string][2]string{
		"running":        {"", ""},
		"":               {"", ""},
		"-1 0x7ffd 0x7f": {"", ""},
		"999999 0x1":     {"system call 999999", ""},
		"x y":            {"", ""},
	} {
		if name, on := parseSyscall(line, file); name != want[0] || on != want[1] {
			t.Errorf("%q: %q of %q", line, name, on)
		}
	}
	for n, name := range syscalls() {
		if name == "read" {
			if got, on := parseSyscall(itoa(n)+" 0x3 0x7f 0x1", file); got != "read" || on != "/tmp/fifo3" {
				t.Errorf("read: %q of %q", got, on)
			}
		}
	}
}

func TestParseKernelStack(t *testing.T) {
	got := parseKernelStack("[<0>] futex_wait_queue+0x60/0x90\n[<0>] do_futex+0x1/0x2\nnonsense\n")
	if !slices.Equal(got, []string{"futex_wait_queue", "do_futex"}) {
		t.Error(got)
	}
}

// FuzzParse checks that no text breaks a parser or gets past the bounds.
func FuzzParse(f *testing.F) {
	for _, text := range []string{faulthandlerText, pySpyText, goText, gdbText, euStackText} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []func(string) []Frame{ParseFaulthandler, parsePySpy, ParseGo, parseGDB, parseEuStack} {
			s := Stack{Frames: parse(text)}
			if len(s.Frames) > maxFrames {
				t.Fatalf("%d frames", len(s.Frames))
			}
			s.Clean()
			for _, r := range s.Place().String() {
				if r < ' ' || r >= 0x7f && r < 0xa0 {
					t.Fatalf("%q is shown", r)
				}
			}
		}
		parseKernelStack(text)
		parseSyscall(text, func(int) string { return text })
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`[{"rank":3,"pid":7,"frames":[{"function":"f","file":"a.py","line":3,"own":true}],"kernel":{"state":"T"},"helper":{"rank":3}}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		all, err := Decode(body)
		if err != nil {
			return
		}
		for _, g := range GroupStacks(all) {
			for _, r := range g.String() {
				if r < ' ' || r >= 0x7f && r < 0xa0 {
					t.Fatalf("%q is shown", r)
				}
			}
		}
	})
}
