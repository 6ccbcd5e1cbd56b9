package device

// The values of preflight.DeviceState.ComputeMode.
const (
	ModeDefault          = "default"
	ModeExclusiveProcess = "exclusive-process" // one process at a time
	ModeProhibited       = "prohibited"        // none at all
)

// The values of preflight.DeviceState.Fabric. In those between unsupported and completed, CUDA
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
