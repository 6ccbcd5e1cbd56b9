package gpuwatch

import "fmt"

// Class says what kind of error an Xid is.
type Class string

const (
	Hardware  Class = "hardware"  // the GPU, its memory, its links or its firmware failed: the node is at fault
	Program   Class = "program"   // the worker made the error; the GPU is well
	Aftermath Class = "aftermath" // what the driver does after another error
	Advice    Class = "advice"    // nothing failed yet
	Unknown   Class = "unknown"
)

// xid is the entry of NVIDIA's catalogue for an Xid.
type xid struct {
	Code  uint64
	Class Class
	Text  string
	Fix   string
}

// Critical reports whether the job cannot continue: work on that GPU is lost or
// hangs, and the driver does not end the process itself in time. A program's own
// error is not critical, because its process fails with the error.
func (x xid) Critical() bool { return x.Class == Hardware }

func (x xid) String() string { return fmt.Sprintf("Xid %d: %s", x.Code, x.Text) }

// Texts that say what to do about several errors.
const (
	fixReset  = "drain the node and reset the GPU (nvidia-smi --gpu-reset -i N) or reboot; have it serviced if it comes again"
	fixRemap  = "reset the GPU when it is idle, so that the spare row is used"
	fixDebug  = "it is the program's error: run it under compute-sanitizer, or with CUDA_LAUNCH_BLOCKING=1; suspect the GPU only if a program known to be good fails there too"
	fixLink   = "look at nvidia-smi nvlink -s and -e, reset the GPUs of the node, check that nvidia-fabricmanager runs; have it serviced if it comes again"
	fixDriver = "reboot the node, or update driver and firmware (nvidia-bug-report.sh has what NVIDIA asks for)"
	fixLater  = "nothing now; have the GPU checked when the node is drained"
)

// explainXid returns the entry of an Xid; an unknown Xid has the class Unknown.
func explainXid(code uint64) xid {
	x, ok := xids(code)
	if !ok {
		return xid{code, Unknown, "an error that gorun does not know", "look it up at https://docs.nvidia.com/deploy/xid-errors"}
	}
	x.Code = code
	return x
}

func xids(code uint64) (x xid, ok bool) {
	switch code {
	case 8:
		x = xid{0, Program, "the GPU stopped working on a channel", fixDebug}
	case 13:
		x = xid{0, Program, "graphics engine exception: an illegal instruction or an access out of bounds", fixDebug}
	case 31:
		x = xid{0, Program, "GPU memory page fault: an access to an address that is not mapped", fixDebug}
	case 32:
		x = xid{0, Program, "an invalid or corrupted push buffer", fixDebug}
	case 38, 62, 120:
		x = xid{0, Hardware, "the GPU's firmware failed", fixDriver}
	case 43:
		x = xid{0, Program, "the GPU stopped a channel after an error of the program's", fixDebug}
	case 45:
		x = xid{0, Aftermath, "the driver ended the program's work after an earlier error, or because it was killed", "look for the error before it"}
	case 46:
		x = xid{0, Hardware, "the GPU stopped working and did not recover in time", fixReset}
	case 48:
		x = xid{0, Hardware, "double-bit ECC error of the memory: data is lost", fixReset}
	case 61:
		x = xid{0, Advice, "the GPU's microcontroller hit a breakpoint", fixLater}
	case 63:
		x = xid{0, Advice, "a page or row of the memory is to be replaced by a spare one", fixRemap}
	case 64:
		x = xid{0, Hardware, "a bad page or row of the memory could not be replaced", "drain the node and have the GPU exchanged if a reset does not help"}
	case 68, 69, 109:
		x = xid{0, Program, "an engine of the GPU failed on the program's work", fixDebug}
	case 74:
		x = xid{0, Hardware, "NVLink error: a link to another GPU or to the switch failed", fixLink}
	case 79:
		x = xid{0, Hardware, "the GPU has fallen off the bus", "power-cycle the node; check power, cooling and how the GPU sits in its slot"}
	case 92:
		x = xid{0, Advice, "many single-bit ECC errors", fixLater}
	case 94:
		x = xid{0, Hardware, "memory error, contained: only the program that used that memory is hurt", "start the job again; reset the GPU when it is idle"}
	case 95:
		x = xid{0, Hardware, "memory error, uncontained: every program on the GPU is hurt", fixReset}
	case 110:
		x = xid{0, Hardware, "security fault of the GPU", fixReset}
	case 119:
		x = xid{0, Hardware, "the GPU's system processor (GSP) does not answer", fixDriver}
	case 121:
		x = xid{0, Advice, "corrected error of the link between GPU and CPU", fixLater}
	case 136:
		x = xid{0, Hardware, "an NVLink could not be trained", fixLink}
	case 137:
		x = xid{0, Program, "an access over NVLink to memory that the program may not use, often after a failure of its peer", fixDebug}
	case 140:
		x = xid{0, Hardware, "ECC error of the memory that could not be recovered", fixReset}
	case 143:
		x = xid{0, Hardware, "the GPU could not be initialised", fixReset}
	case 144, 145, 146, 147, 148, 149, 150:
		x = xid{0, Hardware, "NVLink error", fixLink}
	case 154:
		x = xid{0, Advice, "the driver says that the GPU needs a recovery (nvidia-smi -q, GPU Recovery Action)", fixLater}
	default:
		return x, false
	}
	return x, true
}
