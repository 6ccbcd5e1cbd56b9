package diagnose

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/match"
)

var (
	// otherMemory matches the memory of another process in torch's error about a full GPU.
	otherMemory = match.Lazy(`\b[Pp]rocess (\d+) has ([\d.]+) ([KMG]iB) memory in use`)
	// freeMemory matches the memory of the GPU, and what of it is free.
	freeMemory = match.Lazy(`\btotal capacity of ([\d.]+) ([KMG]iB) of which ([\d.]+) ([KMG]iB) is free\b`)
	// ownMemory matches that of the worker itself.
	ownMemory = match.Lazy(`\bthis process has ([\d.]+) ([KMG]iB) memory in use`)
)

// blameOtherProcesses says that other processes fill the GPU, if the line shows that they
// have more of its memory than the worker.
func (f *Finding) blameOtherProcesses() {
	own := ownMemory().FindStringSubmatch(f.Text)
	if own == nil {
		return
	}
	var texts []string
	sum := 0.0
	for _, m := range otherMemory().FindAllStringSubmatch(f.Text, 16) {
		sum += mebibytes(m[2], m[3])
		texts = append(texts, "process "+m[1]+" has "+m[2]+" "+m[3])
	}
	if m := freeMemory().FindStringSubmatch(f.Text); m != nil && texts == nil { // a container does not see the others
		sum = mebibytes(m[1], m[2]) - mebibytes(m[3], m[4]) - mebibytes(own[1], own[2])
		texts = append(texts, fmt.Sprintf("they have %.4g GiB", sum/1024))
	}
	if sum <= mebibytes(own[1], own[2]) {
		f.Fix = "the worker itself has " + own[1] + " " + own[2] + " of it: use smaller batches or sequences, activation checkpointing, sharding or offloading (an optimizer's states too); memory that an earlier part of the same program holds counts as well"
		return
	}
	f.Meaning = "other processes fill the GPU: " + strings.Join(texts[:min(len(texts), 4)], ", ") + ", the worker itself " + own[1] + " " + own[2]
	f.Fix = "nvidia-smi (ps -fp PID) on that node shows what they are: end what an earlier job left over, use other GPUs, or give each worker its own one (torch.cuda.set_device(LOCAL_RANK))"
	f.Checks = append([]string{"D09"}, f.Checks...)
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
	}
	return n
}
