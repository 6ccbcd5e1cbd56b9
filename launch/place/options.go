package place

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gorun/gorun/launch/numa"
)

// Mode is the value of --pin.
type Mode string

const (
	Order     Mode = "order"     // every worker sees all GPUs, in one order
	Exclusive Mode = "exclusive" // a worker sees only its own
	None      Mode = "none"      // gorun sets no variable
)

// Options holds what the user asked for on the command line; the zero value asks
// for nothing.
type Options struct {
	Mode          Mode  // "": not given, which means Order if that is possible
	PerWorker     int   // --gpus-per-worker; 0: not given, which means 1
	Map           []int // --map gpu=...: the GPUs of rank 0, of rank 1, ..., as positions among the visible ones
	Virtual       bool  // --virtual-local-rank
	Oversubscribe bool  // --oversubscribe-gpus
	ByGPU         bool  // --nproc-per-node gpu
	ByUUID        bool  // --pin-by=uuid: UUIDs name the GPUs in CUDA_VISIBLE_DEVICES

	Binding numa.Mode // --numa-binding; "": workers are not bound to CPUs
	Unbound bool      // --numa-binding none: Go workers do not divide the CPUs either
}

// ParseMode reads the value of --pin.
func ParseMode(text string) (Mode, error) {
	switch m := Mode(text); m {
	case Order, Exclusive, None:
		return m, nil
	}
	return "", fmt.Errorf("cannot use --pin=%s: it is neither order, exclusive nor none", text)
}

// maxGPUs bounds the values of --map and --gpus-per-worker.
const maxGPUs = 1024

// ParseMap reads the value of --map: "gpu=0,2,1,3".
func ParseMap(text string) ([]int, error) {
	list, ok := strings.CutPrefix(text, "gpu=")
	if !ok {
		return nil, fmt.Errorf("cannot use --map %s: it has the form gpu=0,2,1,3", text)
	}
	var at []int
	for entry := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(entry))
		if err != nil || n < 0 || n >= maxGPUs || len(at) == maxGPUs {
			return nil, fmt.Errorf("cannot use --map %s: %q is no position among the visible GPUs, which count from 0", text, entry)
		}
		at = append(at, n)
	}
	return at, nil
}

// Check returns an error for options that do not fit together on any node.
func (o Options) Check() error {
	switch {
	case o.PerWorker < 0 || o.PerWorker > maxGPUs:
		return fmt.Errorf("cannot use --gpus-per-worker %d: a worker owns from 1 to %d GPUs", o.PerWorker, maxGPUs)
	case o.Virtual && (o.Mode != "" || o.PerWorker > 1 || o.Map != nil || o.Oversubscribe):
		return fmt.Errorf("--virtual-local-rank decides what each worker sees, as torchrun does: leave out --pin, --map, --gpus-per-worker and --oversubscribe-gpus, or use --pin=exclusive instead of it")
	case o.Mode == None && (o.PerWorker > 1 || o.Map != nil || o.ByUUID):
		return fmt.Errorf("--pin=none leaves the GPUs as they are: leave out --map, --gpus-per-worker and --pin-by=uuid, or --pin=none")
	case o.Mode != Exclusive && hasRepeats(o.Map):
		return fmt.Errorf("--map gives a GPU to two workers, and CUDA shows none at all when its list names one twice: use --pin=exclusive with --oversubscribe-gpus")
	case hasRepeats(o.Map) && !o.Oversubscribe:
		return fmt.Errorf("--map gives a GPU to two workers: name each once, or use --oversubscribe-gpus")
	}
	return nil
}

// Strict reports whether the user named GPUs, so that gorun must make a plan.
func (o Options) Strict() bool { return o.assignsGPUs() || o.ByGPU }

// assignsGPUs reports whether the user said which worker gets which GPU.
func (o Options) assignsGPUs() bool {
	return o.Mode == Order || o.Mode == Exclusive || o.PerWorker > 1 || o.Map != nil
}

// gpuFlag returns the flag by which the user named GPUs.
func (o Options) gpuFlag() string {
	switch {
	case o.Mode == Order || o.Mode == Exclusive:
		return "--pin=" + string(o.Mode)
	case o.Map != nil:
		return "--map"
	case o.PerWorker > 1:
		return "--gpus-per-worker"
	}
	return "--nproc-per-node gpu"
}

func (o Options) perWorker() int { return max(o.PerWorker, 1) }

// WorkersFor returns the number of workers for a number of GPUs: what --nproc-per-node
// gpu means together with --gpus-per-worker.
func (o Options) WorkersFor(gpus int) int { return gpus / o.perWorker() }

func hasRepeats(list []int) bool {
	seen := map[int]bool{}
	for _, n := range list {
		if seen[n] {
			return true
		}
		seen[n] = true
	}
	return false
}
