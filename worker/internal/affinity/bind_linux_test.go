package affinity

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// envBind makes the test program bind itself to a CPU and print what its threads may use.
const envBind = "AFFINITY_TEST_CPU"

func TestMain(m *testing.M) {
	text := os.Getenv(envBind)
	if text == "" {
		os.Exit(m.Run())
	}
	var cpu int
	_, _ = fmt.Sscan(text, &cpu)
	stop := make(chan struct{})
	for range 8 { // threads that exist before
		go func() {
			runtime.LockOSThread()
			<-stop
		}()
	}
	fmt.Println(Bind([]int{cpu}))
	tasks, _ := filepath.Glob("/proc/self/task/*/status")
	for _, name := range tasks {
		fmt.Println(allowed(name))
	}
}

// allowed returns the CPUs that a status file of /proc lists.
func allowed(name string) string {
	text, _ := os.ReadFile(name)
	_, after, _ := strings.Cut(string(text), "Cpus_allowed_list:")
	line, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(line)
}

func TestBindBindsAllThreads(t *testing.T) {
	first := strings.FieldsFunc(allowed("/proc/self/status"), func(r rune) bool { return r < '0' || r > '9' })[0]
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envBind+"="+first)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(out))
	if len(lines) < 2 || lines[0] != "true" {
		t.Fatalf("%s", out)
	}
	for _, cpus := range lines[1:] {
		if cpus != first {
			t.Errorf("a thread may use CPUs %s, not only %s", cpus, first)
		}
	}
}

func TestBindRefuses(t *testing.T) {
	before := allowed("/proc/self/status")
	for _, cpus := range [][]int{nil, {}, {-1}, {maxCPU}, {maxCPU - 1}, {0, maxCPU - 1}} {
		if Bind(cpus) {
			t.Errorf("bound to %v", cpus)
		}
	}
	if after := allowed("/proc/self/status"); after != before {
		t.Errorf("CPUs %s became %s", before, after)
	}
}
