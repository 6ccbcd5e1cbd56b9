package device

// Facts is the state of a GPU, as far as its driver tells it. A nil pointer, a
// nil list and an empty text mean unknown.
type Facts struct {
	MemoryMiB   *uint64 `json:"memory_mib,omitempty"` // in total
	Capability  string  `json:"capability,omitempty"` // of CUDA: "9.0"
	ComputeMode string  `json:"compute_mode,omitempty"`
	Persistence *bool   `json:"persistence,omitempty"`

	ECC           *bool   `json:"ecc,omitempty"`            // it is on
	Uncorrected   *uint64 `json:"uncorrected,omitempty"`    // errors of memory since the driver was loaded
	RemapPending  *bool   `json:"remap_pending,omitempty"`  // rows of memory are remapped at the next reset
	RemapFailed   *bool   `json:"remap_failed,omitempty"`   // no row is left to remap to
	RetirePending *bool   `json:"retire_pending,omitempty"` // pages are retired at the next reset, before Ampere

	Clocks *Clocks `json:"clocks,omitempty"`       // what holds the clocks down
	Links  []bool  `json:"nvlinks,omitzero"`       // of each NVLink that it has, whether it is up
	Fabric *Fabric `json:"fabric,omitempty"`       // as the Fabric Manager left it, on machines with NVSwitch
	Near   *Near   `json:"nearest_nics,omitempty"` // nil also when no adapter is known
}

// The values of Facts.ComputeMode.
const (
	ModeDefault          = "default"
	ModeExclusiveProcess = "exclusive-process" // one process at a time
	ModeProhibited       = "prohibited"        // none at all
)

// Fabric is a GPU's part in the NVLink fabric.
type Fabric struct {
	State  string `json:"state"`
	Status string `json:"status,omitempty"` // of FabricCompleted: "" for success, else why it failed
}

// The values of Fabric.State. In those between unsupported and completed, CUDA
// says "system not yet initialized".
const (
	FabricUnsupported = "unsupported" // there is no fabric
	FabricNotStarted  = "not started" // the Fabric Manager does not run, or has not come to this GPU
	FabricInProgress  = "in progress"
	FabricCompleted   = "completed"
	FabricUnknown     = "unknown" // a state of a newer driver's
)

// fabricStates are as NVML numbers them.
var fabricStates = [...]string{FabricUnsupported, FabricNotStarted, FabricInProgress, FabricCompleted}

// Clocks is a set of NVML's clocks event reasons.
type Clocks uint64

// The reasons for which a GPU that is asked to compute is slow. The others (idle,
// an application's own setting, the usual power cap) are no fault.
const (
	HardwareSlowdown Clocks = 1 << 3
	SoftwareThermal  Clocks = 1 << 5
	HardwareThermal  Clocks = 1 << 6
	PowerBrake       Clocks = 1 << 7
)

// Slowed names the reasons that are a fault; none for a healthy GPU.
func (c Clocks) Slowed() []string {
	var names []string
	for _, r := range []struct {
		bit  Clocks
		name string
	}{
		{HardwareSlowdown, "hardware slowdown"},
		{SoftwareThermal, "too hot (slowed by the driver)"},
		{HardwareThermal, "too hot (slowed by the hardware)"},
		{PowerBrake, "power brake (the power supply asked for it)"},
	} {
		if c&r.bit != 0 {
			names = append(names, r.name)
		}
	}
	return names
}
