package device

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/environ"
)

// Grants holds the variables that say which of a node's GPUs a job may use; nil: the
// variable is not set.
type Grants struct {
	CUDA   *string // CUDA_VISIBLE_DEVICES, which CUDA itself reads
	Order  string  // CUDA_DEVICE_ORDER
	NVIDIA *string // NVIDIA_VISIBLE_DEVICES, set when the container was made
	Slurm  *string // the GPUs that Slurm gave to the step or, if unset, to the job
	// SlurmName is the name of Slurm's variable.
	SlurmName string
}

// ReadGrants finds the grants in an environment. The last entry of a name counts.
func ReadGrants(env []string) Grants {
	get := func(name string) *string {
		if value, ok := environ.Lookup(env, name); ok {
			return &value
		}
		return nil
	}
	g := Grants{CUDA: get("CUDA_VISIBLE_DEVICES"), NVIDIA: get("NVIDIA_VISIBLE_DEVICES"), Order: environ.Get(env, "CUDA_DEVICE_ORDER")}
	for _, name := range []string{"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"} {
		if g.Slurm == nil {
			g.Slurm, g.SlurmName = get(name), name
		}
	}
	return g
}

// Visibility says which of a node's GPUs the job's workers may use.
type Visibility struct {
	Visible []GPU    // in CUDA's order, unless OrderUnknown is set
	Notes   []string // what the user may not expect, a line each
	// NoneReason says why none of the node's GPUs is visible. It is "" if one is
	// visible, or if the node has no GPU.
	NoneReason string
	// Withheld means that the container or Slurm gave the workers none of the GPUs
	// that CUDA shows them. NoneReason is then set. Only an empty
	// CUDA_VISIBLE_DEVICES hides these GPUs.
	Withheld bool
	// Whole means that CUDA shows the same GPUs in the same order without gorun.
	Whole bool
	// Ambiguous means that CUDA counts the GPUs otherwise than nvidia-smi unless
	// CUDA_DEVICE_ORDER says PCI_BUS_ID.
	Ambiguous bool
	// OrderUnknown says why CUDA's numbers are unknown; "": they are known. If they
	// are unknown, Visible is in PCI order, and the indexes in CUDA_VISIBLE_DEVICES
	// may mean other GPUs.
	OrderUnknown string
}

func (s *Visibility) note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// FindVisible finds the GPUs that the workers may use. A GPU is visible if the
// driver opens it for this process, CUDA_VISIBLE_DEVICES shows it, and both the
// container and Slurm gave it. A GPU in MIG mode is replaced by its instances.
func FindVisible(gpus []GPU, grants Grants) (s Visibility) {
	// CUDA numbers the GPUs that the driver opens, whatever the container and
	// Slurm gave.
	open := slices.DeleteFunc(slices.Clone(gpus), func(g GPU) bool { return g.Denied != "" })
	if len(open) == 0 && len(gpus) > 0 {
		s.note("this process may use none of the node's %d GPUs: GPU %d: %s", len(gpus), gpus[0].Index, gpus[0].Denied)
	}
	if grants.CUDA == nil {
		s.Visible, s.Notes = visibleByDefault(open, s.Notes)
		for i := range s.Visible {
			s.Visible[i].Entry = strconv.Itoa(i)
		}
	} else {
		var why string
		if s.Visible, why = visibleToCUDA(open, *grants.CUDA); why != "" {
			s.note("%s", why)
		}
	}
	shown := len(s.Visible)
	switch {
	case shown > 0 || len(gpus) == 0:
	case len(s.Notes) > 0:
		s.NoneReason = s.Notes[len(s.Notes)-1]
	default:
		s.NoneReason = fmt.Sprintf("CUDA_VISIBLE_DEVICES=%s shows none", *grants.CUDA)
	}
	s.restrict(open, grants)
	s.Whole = shown > 0 && len(s.Visible) == shown
	why := orderUnknown(open, grants)
	s.Ambiguous = why != ""
	if s.Ambiguous && grants.CUDA == nil && len(s.Visible) < shown {
		s.note("%s", why) // the GPUs are known, and the workers get their numbers in PCI order
	} else {
		s.OrderUnknown = why
	}
	return s
}

// restrict removes the GPUs that the container or Slurm did not give to the job.
func (s *Visibility) restrict(open []GPU, grants Grants) {
	for _, from := range []struct {
		name string
		list *string
		read func([]GPU, string) (filter, string)
	}{
		{"NVIDIA_VISIBLE_DEVICES", grants.NVIDIA, parseContainerGrant},
		{grants.SlurmName, grants.Slurm, parseSlurmGrant},
	} {
		if from.list == nil {
			continue
		}
		allows, why := from.read(open, *from.list)
		if why != "" {
			s.note("%s=%s %s, so gorun ignores it", from.name, *from.list, why)
		}
		if allows == nil {
			continue
		}
		before := len(s.Visible)
		s.Visible = slices.DeleteFunc(s.Visible, func(g GPU) bool { return !allows(g) })
		left := len(s.Visible)
		if hidden := before - left; hidden > 0 && (grants.CUDA != nil || left == 0) {
			s.note("%s=%s does not give %d of the %d GPUs that CUDA shows", from.name, *from.list, hidden, before)
		}
		if before > 0 && left == 0 {
			s.NoneReason, s.Withheld = s.Notes[len(s.Notes)-1], true
		}
	}
}

// visibleByDefault returns what CUDA shows without CUDA_VISIBLE_DEVICES: the GPUs or,
// if there are MIG instances, only these.
func visibleByDefault(open []GPU, notes []string) ([]GPU, []string) {
	var whole, parts []GPU
	for _, g := range open {
		if g.MIG != nil && *g.MIG {
			parts = append(parts, instancesOf(g)...)
		} else {
			whole = append(whole, g)
		}
	}
	switch divided := len(open) - len(whole); {
	case len(parts) > 0 && len(whole) > 0:
		return parts, append(notes, fmt.Sprintf("%d of the node's %d GPUs are divided into MIG instances, so CUDA shows only the instances; to use the other GPUs, name them by UUID in CUDA_VISIBLE_DEVICES", divided, len(open)))
	case len(parts) > 0:
		return parts, notes
	case divided > 0:
		notes = append(notes, fmt.Sprintf("%d of the node's %d GPUs are in MIG mode and have no instance, so workers cannot use them (nvidia-smi mig -cgi ... -C creates instances, nvidia-smi -mig 0 ends the mode)", divided, len(open)))
	}
	return whole, notes
}

// instancesOf returns the MIG instances of a GPU as devices.
func instancesOf(g GPU) []GPU {
	parts := make([]GPU, 0, len(g.Instances))
	for _, in := range g.Instances {
		parts = append(parts, GPU{Index: -1, UUID: in.UUID, Name: in.Name, PCI: g.PCI, Minor: g.Minor, NUMA: g.NUMA, Parent: g.UUID})
	}
	return parts
}

// orderUnknown says why CUDA's numbers may differ from NVML's, "" if they do not.
// CUDA numbers the fastest model first unless CUDA_DEVICE_ORDER says otherwise. Only
// CUDA knows how fast a model is.
func orderUnknown(open []GPU, grants Grants) string {
	var models []string
	for _, g := range open {
		if g.Name != "" && !slices.Contains(models, g.Name) {
			models = append(models, g.Name)
		}
	}
	if len(models) < 2 || grants.Order == "PCI_BUS_ID" {
		return ""
	}
	const fix = "export CUDA_DEVICE_ORDER=PCI_BUS_ID, or name GPUs by UUID in CUDA_VISIBLE_DEVICES"
	if grants.CUDA == nil {
		return fmt.Sprintf("the GPUs of this node differ (%s): CUDA numbers the fastest first and nvidia-smi does not; %s", strings.Join(models, ", "), fix)
	}
	if first, _, _ := strings.Cut(*grants.CUDA, ","); first == "" || strings.Contains(first, "-") {
		return ""
	}
	return fmt.Sprintf("the GPUs of this node differ (%s): CUDA numbers the fastest first, so gorun does not know which GPUs CUDA_VISIBLE_DEVICES=%s means; %s", strings.Join(models, ", "), *grants.CUDA, fix)
}
