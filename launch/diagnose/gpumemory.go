package diagnose

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/match"
)

var (
	// otherMemory matches the memory of another process in torch's error about a full GPU.
	otherMemory = match.Lazy(`\b[Pp]rocess (\d+) has ([\d.]+) ([KMG]iB|bytes) memory in use`)
	// freeMemory matches the memory of the GPU, and what of it is free.
	freeMemory = match.Lazy(`\btotal capac\w{2,4} of ([\d.]+) ([KMG]iB) of which ([\d.]+) ([KMG]iB|bytes) is free\b`)
	// allocated matches what of the worker's own memory torch allocated.
	allocated = match.Lazy(`\bOf the allocated memory ([\d.]+) ([KMG]iB|bytes) is allocated by PyTorch`)
	// ownMemory matches that of the worker itself.
	ownMemory = match.Lazy(`\bthis process has ([\d.]+) ([KMG]iB|bytes) memory in use`)
)

// sharpenMemory says who fills the GPU, if torch's line has the memory of each process: other
// processes, if they have more than the worker, or the worker itself, if it has most.
func (f *Finding) sharpenMemory() {
	own := ownMemory().FindStringSubmatch(f.Text)
	if own == nil {
		return
	}
	mine, total, free, tensors := mebibytes(own[1], own[2]), 0.0, 0.0, 0.0
	if m := allocated().FindStringSubmatch(f.Text); m != nil {
		tensors = mebibytes(m[1], m[2])
	}
	if m := freeMemory().FindStringSubmatch(f.Text); m != nil {
		total, free = mebibytes(m[1], m[2]), mebibytes(m[3], m[4])
	}
	if tensors > mine || total > 0 && mine > total { // NVML did not tell torch the memory of the process
		return
	}
	var texts []string
	sum := 0.0
	for _, m := range otherMemory().FindAllStringSubmatch(f.Text, 16) {
		sum += mebibytes(m[2], m[3])
		texts = append(texts, "process "+m[1]+" has "+m[2]+" "+m[3])
	}
	if texts == nil && total > 0 { // a container does not see the others
		sum = total - free - mine
		texts = append(texts, fmt.Sprintf("they have %.4g GiB", sum/1024))
	}
	switch {
	case sum > mine:
		f.Meaning = "other processes fill the GPU: " + strings.Join(texts[:min(len(texts), 4)], ", ") + ", the worker itself " + own[1] + " " + own[2]
		f.Fix = "nvidia-smi (ps -fp PID) on that node shows what they are: end what an earlier job left over, use other GPUs, or give each worker its own one (torch.cuda.set_device(LOCAL_RANK))"
		f.Checks = append([]string{"D09"}, f.Checks...)
	case total > 0 && mine > total/2:
		f.Fix = "the worker itself has " + own[1] + " " + own[2] + " of it: use smaller batches or sequences, activation checkpointing, sharding or offloading (an optimizer's states too); memory that an earlier part of the same program holds counts as well"
	}
}

// mebibytes returns a size in MiB.
func mebibytes(number, unit string) float64 {
	n, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil:
		return 0
	case unit == "GiB":
		return n * 1024
	case unit == "KiB":
		return n / 1024
	case unit == "bytes":
		return n / (1 << 20)
	}
	return n
}
