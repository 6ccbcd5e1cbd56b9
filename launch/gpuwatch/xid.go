package gpuwatch

import "slices"

// xid is an entry of NVIDIA's catalogue of Xids.
type xid struct {
	text string
	fix  string
	// critical says that the job cannot continue: the GPU, its memory, its links or its
	// firmware failed, work on that GPU is lost or hangs, and the driver does not end
	// the process in time. An error of the program is not critical, because its process
	// fails with the error.
	critical bool
}

// Texts that say what to do about several errors.
const (
	fixReset  = "drain the node and reset the GPU (nvidia-smi --gpu-reset -i N) or reboot; have it serviced if the error comes again"
	fixRemap  = "reset the GPU when it is idle, so that the spare row is used"
	fixDebug  = "this is an error of the program: run it under compute-sanitizer, or with CUDA_LAUNCH_BLOCKING=1; suspect the GPU only if a program known to be good fails there too"
	fixLink   = "run nvidia-smi nvlink -s and -e, reset the GPUs of the node, check that nvidia-fabricmanager runs; have it serviced if the error comes again"
	fixDriver = "reboot the node, or update driver and firmware (nvidia-bug-report.sh has what NVIDIA asks for)"
	fixLater  = "nothing now; have the GPU checked when the node is drained"
)

// catalogue holds the Xids that gorun knows.
var catalogue = []struct {
	codes []uint64
	xid
}{
	{[]uint64{8}, xid{text: "the GPU stopped working on a channel", fix: fixDebug}},
	{[]uint64{13}, xid{text: "graphics engine exception: an illegal instruction or an access out of bounds", fix: fixDebug}},
	{[]uint64{31}, xid{text: "GPU memory page fault: an access to an address that is not mapped", fix: fixDebug}},
	{[]uint64{32}, xid{text: "an invalid or corrupted push buffer", fix: fixDebug}},
	{[]uint64{38, 62, 120}, xid{text: "the GPU's firmware failed", fix: fixDriver, critical: true}},
	{[]uint64{43}, xid{text: "the GPU stopped a channel after an error of the program", fix: fixDebug}},
	{[]uint64{45}, xid{text: "the driver stopped the program's work after an earlier error, or because the program was killed", fix: "find the error before this one"}},
	{[]uint64{46}, xid{text: "the GPU stopped working and did not recover in time", fix: fixReset, critical: true}},
	{[]uint64{48}, xid{text: "double-bit ECC error of the memory: data is lost", fix: fixReset, critical: true}},
	{[]uint64{61}, xid{text: "the GPU's microcontroller hit a breakpoint", fix: fixLater}},
	{[]uint64{63}, xid{text: "a page or row of the memory is to be replaced by a spare one", fix: fixRemap}},
	{[]uint64{64}, xid{text: "a bad page or row of the memory could not be replaced", fix: "drain the node and have the GPU exchanged if a reset does not help", critical: true}},
	{[]uint64{68, 69, 109}, xid{text: "an engine of the GPU failed on the program's work", fix: fixDebug}},
	{[]uint64{74}, xid{text: "NVLink error: a link to another GPU or to the switch failed", fix: fixLink, critical: true}},
	{[]uint64{79}, xid{text: "the GPU has fallen off the bus", fix: "power-cycle the node; check power, cooling and the seat of the GPU in its slot", critical: true}},
	{[]uint64{92}, xid{text: "many single-bit ECC errors", fix: fixLater}},
	{[]uint64{94}, xid{text: "memory error, contained: only the program that used that memory is affected", fix: "start the job again; reset the GPU when it is idle", critical: true}},
	{[]uint64{95}, xid{text: "memory error, uncontained: every program on the GPU is affected", fix: fixReset, critical: true}},
	{[]uint64{110}, xid{text: "security fault of the GPU", fix: fixReset, critical: true}},
	{[]uint64{119}, xid{text: "the GPU's system processor (GSP) does not answer", fix: fixDriver, critical: true}},
	{[]uint64{121}, xid{text: "corrected error of the link between GPU and CPU", fix: fixLater}},
	{[]uint64{136}, xid{text: "an NVLink could not be trained", fix: fixLink, critical: true}},
	{[]uint64{137}, xid{text: "an access over NVLink to memory that the program may not use, often after a failure of its peer", fix: fixDebug}},
	{[]uint64{140}, xid{text: "ECC error of the memory that could not be recovered", fix: fixReset, critical: true}},
	{[]uint64{143}, xid{text: "the GPU could not be initialised", fix: fixReset, critical: true}},
	{[]uint64{144, 145, 146, 147, 148, 149, 150}, xid{text: "NVLink error", fix: fixLink, critical: true}},
	{[]uint64{154}, xid{text: "the driver says that the GPU needs a recovery (nvidia-smi -q, GPU Recovery Action)", fix: fixLater}},
}

// explainXid returns the entry of an Xid. An unknown Xid is not critical.
func explainXid(code uint64) xid {
	for _, entry := range catalogue {
		if slices.Contains(entry.codes, code) {
			return entry.xid
		}
	}
	return xid{text: "an error that gorun does not know", fix: "see https://docs.nvidia.com/deploy/xid-errors"}
}
