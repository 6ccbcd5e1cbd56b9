package ncclenv

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

func TestNamedFiles(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "w"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "w/topo.xml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600); err != nil { // must not block
		t.Fatal(err)
	}
	got := NamedFiles(Options{Root: root, Dir: "/w"}, []Value{
		{Name: "NCCL_TOPO_FILE", Value: "topo.xml"},
		{Name: "NCCL_GRAPH_FILE", Value: "/none.xml"},
		{Name: "NCCL_TUNER_CONFIG_FILE", Value: "/fifo"},
		{Name: "NCCL_PROFILER_PLUGIN", Value: "name"},
		{Name: "NCCL_ENV_PLUGIN", Value: "/w/topo.xml"},
		{Name: "NCCL_DEBUG_FILE", Value: "/none"},
	})
	want := []Named{
		{"NCCL_TOPO_FILE", "topo.xml", ""},
		{"NCCL_GRAPH_FILE", "/none.xml", "no such file or directory"},
		{"NCCL_TUNER_CONFIG_FILE", "/fifo", "not a regular file"},
		{"NCCL_ENV_PLUGIN", "/w/topo.xml", ""},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
