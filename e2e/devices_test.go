package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// gpuHost is one machine with GPUs, and the file that says what happens on them.
type gpuHost struct {
	*job
	m    *machine
	live string
}

func newGPUHost(t *testing.T, gpus int) *gpuHost {
	f := newFleet(t, [][]nic{eth0("10.77.0.1/24")})
	g := &gpuHost{job: f.job(t), m: f.machines[0]}
	g.m.gpus(gpus)
	g.live = filepath.Join(g.dir, "live")
	g.m.nvml(fmt.Sprintf("gpus %d host %s live %s", gpus, g.m.Host, g.live))
	g.m.env = append(g.m.env, "LIVE="+g.live)
	return g
}

// run starts gorun on the machine.
func (g *gpuHost) run(args ...string) *agent {
	g.Helper()
	return g.launch(g.m.Host, g.m.on(g.command(args...)))
}

// addEvent adds an event to the file.
func (g *gpuHost) addEvent(line string) {
	g.Helper()
	f, err := os.OpenFile(g.live, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		g.Fatal(err)
	}
	defer f.Close()
	if _, err := fmt.Fprintln(f, line); err != nil {
		g.Fatal(err)
	}
}

// TestPin checks which GPUs a worker sees and owns.
func TestPin(t *testing.T) {
	t.Parallel()
	const a, b, c, d = "GPU-node1-0000", "GPU-node1-0001", "GPU-node1-0002", "GPU-node1-0003"
	all := strings.Join([]string{a, b, c, d}, ",")
	for name, tt := range map[string]struct {
		flags string
		env   []string
		code  int
		want  []string // RANK LOCAL_RANK CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER GORUN_DEVICE
		text  string
	}{
		"as torchrun's scripts want it": {
			flags: "--nproc-per-node 2",
			want:  []string{"0 0 - - " + a, "1 1 - - " + b},
		},
		"by UUID": {
			flags: "--nproc-per-node 2 --pin-by uuid",
			want:  []string{"0 0 " + all + " PCI_BUS_ID " + a, "1 1 " + all + " PCI_BUS_ID " + b},
		},
		"all": {
			flags: "--nproc-per-node gpu --gpus-per-worker 2",
			want:  []string{"0 0 - - " + a + "," + b, "1 1 - - " + c + "," + d},
			text:  "each worker sees all GPUs and owns 2 of them",
		},
		"exclusive": {
			flags: "--nproc-per-node 2 --pin=exclusive",
			want:  []string{"0 0 0 PCI_BUS_ID " + a, "1 1 1 PCI_BUS_ID " + b},
		},
		"none": {flags: "--nproc-per-node 2 --pin=none", want: []string{"0 0 - - -", "1 1 - - -"}},
		"a map": {
			flags: "--nproc-per-node 2 --pin=exclusive --map gpu=3,1",
			want:  []string{"0 0 3 PCI_BUS_ID " + d, "1 1 1 PCI_BUS_ID " + b},
		},
		"virtual local rank": {
			flags: "--nproc-per-node 2 --virtual-local-rank",
			want:  []string{"0 0 0 - " + a, "1 0 1 - " + b},
		},
		"what is visible": {
			flags: "--nproc-per-node gpu", env: []string{"CUDA_VISIBLE_DEVICES=2,GPU-node1-0000,0"},
			want: []string{"0 0 2,GPU-node1-0000,0 - " + c}, text: "so CUDA ignores it and what follows",
		},
		"reversed": {
			flags: "--nproc-per-node gpu", env: []string{"CUDA_VISIBLE_DEVICES=" + b + "," + a},
			want: []string{"0 0 " + b + "," + a + " - " + b, "1 1 " + b + "," + a + " - " + a},
		},
		"some of what CUDA shows": {
			flags: "--nproc-per-node 2", env: []string{"NVIDIA_VISIBLE_DEVICES=" + b + "," + d},
			want: []string{"0 0 1,3 PCI_BUS_ID " + b, "1 1 1,3 PCI_BUS_ID " + d},
		},
		"some of the user's list": {
			flags: "--nproc-per-node gpu", env: []string{"CUDA_VISIBLE_DEVICES=3,1,0", "SLURM_STEP_GPUS=1,3"},
			want: []string{"0 0 3,1 PCI_BUS_ID " + d, "1 1 3,1 PCI_BUS_ID " + b}, text: "does not give 1 of the 3 GPUs that CUDA shows",
		},
		"hidden": {
			flags: "--nproc-per-node 2", env: []string{"CUDA_VISIBLE_DEVICES="},
			want: []string{"0 0  - -", "1 1  - -"},
		},
		"nodes of one machine": {
			flags: "--local-nodes 2 --nproc-per-node gpu --pin=exclusive",
			want: []string{
				"0 0 0 PCI_BUS_ID " + a, "1 1 1 PCI_BUS_ID " + b,
				"2 0 2 PCI_BUS_ID " + c, "3 1 3 PCI_BUS_ID " + d,
			},
		},
		"hidden, but asked for": {
			flags: "--nproc-per-node 2 --pin=exclusive", env: []string{"CUDA_VISIBLE_DEVICES="}, code: 2,
			text: "gorun: no GPU is visible on node node1: CUDA_VISIBLE_DEVICES= hides all; make some visible, or leave out --pin=exclusive\n",
		},
		"others than Slurm gave": {
			flags: "--nproc-per-node 2", env: []string{"SLURM_STEP_GPUS=2,3", "CUDA_VISIBLE_DEVICES=0,1"},
			want: []string{"0 0  - -", "1 1  - -"}, text: "SLURM_STEP_GPUS=2,3 does not give 2 of the 2 GPUs that CUDA shows\n",
		},
		"others than Slurm gave, asked for": {
			flags: "--nproc-per-node 2 --pin=exclusive", env: []string{"SLURM_STEP_GPUS=2,3", "CUDA_VISIBLE_DEVICES=0,1"}, code: 2,
			text: "gorun: no GPU is visible on node node1: SLURM_STEP_GPUS=2,3 does not give 2 of the 2 GPUs that CUDA shows; make some visible, or leave out --pin=exclusive\n",
		},
		"more workers than GPUs": {
			flags: "--nproc-per-node 5", want: []string{"0 0 - - -", "1 1 - - -", "2 2 - - -", "3 3 - - -", "4 4 - - -"},
			text: "gorun: 5 workers, but 4 GPUs are visible on node node1: no worker gets a GPU of its own, as under torchrun; --nproc-per-node gpu starts one for each GPU\n",
		},
		"more workers than GPUs, pinned": {
			flags: "--nproc-per-node 5 --pin=order", code: 2, text: "gorun: 5 workers, but 4 GPUs are visible on node node1: use --nproc-per-node gpu, or --oversubscribe-gpus to share; for a job that computes on CPUs, CUDA_VISIBLE_DEVICES=\"\" or --pin=none\n",
		},
		"more workers than GPUs, not for these": {
			flags: "--nproc-per-node 5 --pin=none", want: []string{"0 0 - - -", "1 1 - - -", "2 2 - - -", "3 3 - - -", "4 4 - - -"},
		},
		"more nodes than GPUs": {
			flags: "--local-nodes 2 --nproc-per-node 3", want: []string{"0 0 - - -", "1 1 - - -", "2 2 - - -", "3 0 - - -", "4 1 - - -", "5 2 - - -"},
			text: "6 workers, but 4 GPUs are visible",
		},
		"shared": {
			flags: "--nproc-per-node 5 --pin=exclusive --oversubscribe-gpus",
			want: []string{
				"0 0 0 PCI_BUS_ID " + a, "1 1 1 PCI_BUS_ID " + b, "2 2 2 PCI_BUS_ID " + c,
				"3 3 3 PCI_BUS_ID " + d, "4 4 0 PCI_BUS_ID " + a,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGPUHost(t, 4)
			g.m.env = append(g.m.env, tt.env...)
			script := sh(`echo $RANK $LOCAL_RANK "${CUDA_VISIBLE_DEVICES--}" ${CUDA_DEVICE_ORDER--} ${GORUN_DEVICE--}`)
			x := g.run(append(strings.Fields(tt.flags), script...)...)
			g.wantExit(longWait, tt.code, x)
			var got []string
			for line := range strings.Lines(x.out.String()) {
				got = append(got, strings.TrimSpace(line))
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("the workers have\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			if !strings.Contains(x.err.String(), tt.text) {
				t.Errorf("it does not say %q", tt.text)
			}
			if strings.HasPrefix(tt.text, "gorun: ") && x.err.String() != tt.text {
				t.Errorf("it says more than %q", tt.text)
			}
		})
	}
}

// TestPinSource checks where the GPUs of the workers come from. The driver's files are
// enough unless the preflight asks the library anyway, or there are MIG instances.
func TestPinSource(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		flags, file, want string
	}{
		"pins":            {flags: "--nproc-per-node 2 --preflight=off", want: "GPU-node1-0000 GPU-node1-0001"},
		"count and pins":  {flags: "--nproc-per-node gpu --preflight=off", want: "GPU-node1-0000 GPU-node1-0001"},
		"a MIG instance":  {flags: "--nproc-per-node gpu --preflight=off", file: "gpu1/mig/gi2/access", want: "GPU-nvml-0000 GPU-nvml-0001"},
		"preflight":       {flags: "--nproc-per-node 2", want: "GPU-nvml-0000 GPU-nvml-0001"},
		"count, then ask": {flags: "--nproc-per-node gpu", want: "GPU-nvml-0000 GPU-nvml-0001"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGPUHost(t, 2)
			g.m.nvml("gpus 2 host nvml")
			if tt.file != "" {
				g.m.write("proc/driver/nvidia/capabilities/"+tt.file, "")
			}
			x := g.run(append(strings.Fields(tt.flags), sh("echo $GORUN_DEVICE")...)...)
			g.wantExit(longWait, 0, x)
			got := strings.Fields(x.out.String())
			slices.Sort(got)
			if text := strings.Join(got, " "); text != tt.want || x.err.String() != "" {
				t.Errorf("the workers have %q, want %q; it says %q", text, tt.want, x.err.String())
			}
		})
	}
}

// TestLocalNodesShareASurvey checks that the agents of one machine ask the driver once,
// and that all have its answer.
func TestLocalNodesShareASurvey(t *testing.T) {
	t.Parallel()
	g := newGPUHost(t, 4)
	file := filepath.Join(g.dir, "surveys")
	g.m.nvml("gpus 4 host nvml surveys " + file)
	x := g.run(append(strings.Fields("--local-nodes 4 --nproc-per-node 1"), sh("echo $RANK $GORUN_DEVICE")...)...)
	g.wantExit(longWait, 0, x)
	for r := range 4 {
		wantParts(t, x.out.String(), fmt.Sprintf("%d GPU-nvml-%04d\n", r, r))
	}
	if asked, err := os.ReadFile(file); err != nil || len(asked) != 1 {
		t.Errorf("the driver was asked %d times, %v", len(asked), err)
	}
}

// TestGoWorkersGetTheirNCCL checks that Go workers on GPUs get the path of the libnccl that
// the preflight has found, unless the user names one, and that other programs do not.
func TestGoWorkersGetTheirNCCL(t *testing.T) {
	t.Parallel()
	const found = "/x86_64-linux-gnu/libnccl.so.2  gorun: the NCCL for Go workers"
	for name, tt := range map[string]struct {
		env, program []string
		want         string // "": none
	}{
		"Go":           {program: []string{os.Getenv(envGorun), "version"}, want: found},
		"not Go":       {program: []string{"/bin/true"}},
		"named":        {env: []string{"GORUN_NCCL_LIB=/opt/nccl.so"}, program: []string{os.Getenv(envGorun), "version"}}, // it is the node's own
		"no GPU":       {env: []string{"CUDA_VISIBLE_DEVICES="}, program: []string{os.Getenv(envGorun), "version"}},
		"in a wrapper": {program: []string{"env", "-i", os.Getenv(envGorun), "version"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGPUHost(t, 2)
			g.m.systemNCCL(nccl)
			g.m.env = append(g.m.env, tt.env...)
			x := g.run(append([]string{"--dry-run", "--ignore", "E03", "--no-python"}, tt.program...)...)
			g.wantExit(longWait, 0, x)
			out := x.out.String()
			if tt.want == "" && strings.Contains(out, "GORUN_NCCL_LIB") || !strings.Contains(out, tt.want) || x.err.String() != "" {
				t.Errorf("it does not show just %q:\n%s%s", tt.want, out, x.err.String())
			}
		})
	}
}

// TestPinTwoContainers checks that D01 finds two containers of one machine that give the
// same GPUs to their workers.
func TestPinTwoContainers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoMachines()).healthy()
	f.machines[1].write("boot_id", "00000000-0000-4000-8000-000000000001\n")
	f.machines[1].nvml("gpus 2 host node1")
	j := f.job(t)
	agents := f.all(j, script)
	j.wantExit(longWait, 78, agents...)
	wantFindings(t, agents[0].err.String(), "error D01", "warning H01")
	wantParts(t, agents[0].err.String(), "GPU-node1-0000")
}

// TestMoreWorkersThanGPUsOnAllNodes checks that the workers start, and that each node says
// in one line that they have no GPUs of their own, although their program has NCCL.
func TestMoreWorkersThanGPUsOnAllNodes(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoMachines()).healthy()
	j := f.job(t, "--nproc-per-node", "4")
	agents := f.all(j, script)
	j.wantExit(longWait, 0, agents...)
	for _, a := range agents {
		text := a.err.String()
		if strings.Count(text, "4 workers, but 2 GPUs are visible on node ") != 1 || strings.Contains(text, "D02") {
			t.Errorf("%s says %s", a.name, text)
		}
	}
}

// TestGPURelease checks that a restart waits until the GPUs are free, and names the
// processes that hold them.
func TestGPURelease(t *testing.T) {
	t.Parallel()
	g := newGPUHost(t, 2)
	// The driver still lists the worker's process after it has ended.
	a := g.run(with(sh(`echo up $$; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || { echo busy 0 $$ >>$LIVE; exit 3; }`), "--max-restarts", "1")...)
	a.waitForStderr("waiting until the GPUs are free (at most 50s): GPU 0: pid ")
	if n := strings.Count(a.out.String(), "up"); n != 1 {
		t.Errorf("%d workers were started before the GPU was free", n)
	}
	if err := os.WriteFile(g.live, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	g.wantExit(longWait, 0, a)
	a.waitForStdout("up", 2)
}

// TestSecondCtrlCEndsGPURelease checks that Ctrl-C twice ends the wait for the GPUs.
func TestSecondCtrlCEndsGPURelease(t *testing.T) {
	t.Parallel()
	g := newGPUHost(t, 2)
	a := g.run(sh(`echo busy 0 $$ >>$LIVE; echo up; exec sleep 100`)...)
	a.waitForStdout("up", 1)
	a.signal(syscall.SIGINT)
	a.waitForStderr("waiting until the GPUs are free")
	a.signal(syscall.SIGINT)
	g.wantExit(longWait, 130, a)
}

// TestGPUReleaseTimeout checks that the wait for the GPUs ends after the user's timeout.
func TestGPUReleaseTimeout(t *testing.T) {
	t.Parallel()
	for limit, says := range map[string]string{"4": "the GPUs are not free after 4s: GPU 0: pid ", "0": ""} {
		g := newGPUHost(t, 2)
		a := g.run(with(sh(`echo busy 0 $$ >>$LIVE; exit 3`), "--gpu-release-timeout", limit)...)
		g.wantExit(longWait, 3, a)
		if stderr := strings.Contains(a.err.String(), "the GPUs are not free"); stderr != (says != "") || !strings.Contains(a.err.String(), says) {
			t.Errorf("--gpu-release-timeout %s: want %q", limit, says)
		}
	}
}

// TestNUMABinding checks that a worker's process has the mask that --numa-binding gives
// it.
func TestNUMABinding(t *testing.T) {
	t.Parallel()
	cores, err := filepath.Glob("/sys/devices/system/cpu/cpu*/topology/thread_siblings_list")
	need(t, err == nil && len(cores) > 0, "CPUs in /sys")
	distinct := map[string]bool{}
	for _, file := range cores {
		b, _ := os.ReadFile(file)
		distinct[string(b)] = true
	}
	j := newJob(t)
	mask := sh(`grep Cpus_allowed_list: /proc/self/status`)
	a := j.run("node", with(mask, "--nproc-per-node", "2", "--numa-binding", "node")...)
	j.wantExit(longWait, 0, a)
	a.waitForStdout("Cpus_allowed_list:", 2)
	if len(distinct) < 2 {
		t.Skip("exclusive: this machine has one core")
	}
	a = j.run("exclusive", with(mask, "--nproc-per-node", "2", "--numa-binding", "exclusive")...)
	j.wantExit(longWait, 0, a)
	var lists []string
	for line := range strings.Lines(a.out.String()) {
		lists = append(lists, line)
	}
	if len(lists) != 2 || lists[0] == lists[1] {
		t.Errorf("the workers share CPUs: %q", lists)
	}
}
