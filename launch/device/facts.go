package device

// The values of preflight.DeviceState.ComputeMode.
const (
	ModeDefault          = "default"
	ModeExclusiveProcess = "exclusive-process" // one process at a time
	ModeProhibited       = "prohibited"        // none at all
)

// The values of preflight.DeviceState.Fabric. CUDA says "system not yet
// initialized" in the states between unsupported and completed.
const (
	FabricUnsupported = "unsupported" // there is no fabric
	FabricNotStarted  = "not started" // the Fabric Manager does not run, or has not reached this GPU
	FabricInProgress  = "in progress"
	FabricCompleted   = "completed"
	FabricUnknown     = "unknown" // a state that only a newer driver has
)

// fabricStates has the states by NVML's number.
var fabricStates = [...]string{FabricUnsupported, FabricNotStarted, FabricInProgress, FabricCompleted}

// Clocks is a set of NVML's clocks event reasons.
type Clocks uint64

// The reasons for which a GPU with work to do is slow. The other reasons (idle,
// an application's own setting, the usual power cap) are no fault.
const (
	HardwareSlowdown Clocks = 1 << 3
	SoftwareThermal  Clocks = 1 << 5
	HardwareThermal  Clocks = 1 << 6
	PowerBrake       Clocks = 1 << 7
)

// SlowReasons returns the names of the reasons that are a fault. A healthy GPU has
// none.
func (c Clocks) SlowReasons() []string {
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
