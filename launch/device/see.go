package device

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/environ"
)

// Grants says which of a node's GPUs a job may use. A nil field says nothing.
type Grants struct {
	CUDA   *string // CUDA_VISIBLE_DEVICES, which CUDA itself obeys
	Order  string  // CUDA_DEVICE_ORDER
	NVIDIA *string // NVIDIA_VISIBLE_DEVICES, set when the container was made
	Slurm  *string // what Slurm gave to the step or, without that, to the job
	// SlurmName is the variable that Slurm came from.
	SlurmName string
}

// ReadGrants finds the grants in an environment, in which the last entry of a
// name counts.
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

// Sight is what the job's workers may use of a node's GPUs.
type Sight struct {
	Visible []GPU    // in CUDA's order, unless Doubt is set
	Notes   []string // what the user may not expect, a line each
	// Blind says why none of the node's GPUs is visible. It is "" if one is, or
	// if the node has none.
	Blind string
	// Withheld means that Blind is set and CUDA would still show a worker GPUs
	// that were not given to it, unless CUDA_VISIBLE_DEVICES is set to nothing.
	Withheld bool
	// Doubt says why CUDA's numbers are unknown; "": they are known. Visible is
	// then in PCI order, and a CUDA_VISIBLE_DEVICES of indexes may mean other
	// GPUs.
	Doubt string
}

func (s *Sight) note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// See finds what the workers may use. A GPU is visible if the driver opens it
// for this process, CUDA_VISIBLE_DEVICES shows it, and both the container and
// Slurm gave it. A GPU in MIG mode is replaced by its instances.
func See(gpus []GPU, grants Grants) (s Sight) {
	// CUDA numbers what the driver opens, whatever the container and Slurm
	// gave.
	open := slices.DeleteFunc(slices.Clone(gpus), func(g GPU) bool { return g.Denied != "" })
	if len(open) == 0 && len(gpus) > 0 {
		s.note("this process may use none of the node's %d GPUs: GPU %d: %s", len(gpus), gpus[0].Index, gpus[0].Denied)
	}
	if grants.CUDA == nil {
		s.Visible, s.Notes = uncut(open, s.Notes)
	} else {
		var why string
		if s.Visible, why = Visible(open, *grants.CUDA); why != "" {
			s.note("%s", why)
		}
	}
	shown := len(s.Visible)
	switch {
	case shown > 0 || len(gpus) == 0:
	case len(s.Notes) > 0:
		s.Blind = s.Notes[len(s.Notes)-1]
	default:
		s.Blind = fmt.Sprintf("CUDA_VISIBLE_DEVICES=%s shows none", *grants.CUDA)
	}
	s.restrict(open, grants)
	if why := ambiguous(open, grants); why != "" && grants.CUDA == nil && len(s.Visible) < shown {
		s.note("%s", why) // it is known which GPUs are meant, and CUDA needs their names
	} else {
		s.Doubt = why
	}
	return s
}

// restrict removes the GPUs that the container or Slurm did not give.
func (s *Sight) restrict(open []GPU, grants Grants) {
	for _, from := range []struct {
		name string
		list *string
		read func([]GPU, string) (filter, string)
	}{
		{"NVIDIA_VISIBLE_DEVICES", grants.NVIDIA, containerGrant},
		{grants.SlurmName, grants.Slurm, slurmGrant},
	} {
		if from.list == nil {
			continue
		}
		allows, why := from.read(open, *from.list)
		if why != "" {
			s.note("%s=%s %s, so it is left out of account", from.name, *from.list, why)
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
			s.Blind, s.Withheld = s.Notes[len(s.Notes)-1], true
		}
	}
}

// uncut returns what is visible without CUDA_VISIBLE_DEVICES: the GPUs, or the
// MIG instances if there are any, because CUDA then shows no whole GPU.
func uncut(open []GPU, notes []string) ([]GPU, []string) {
	var whole, parts []GPU
	for _, g := range open {
		if g.MIG != nil && *g.MIG {
			parts = append(parts, instances(g)...)
		} else {
			whole = append(whole, g)
		}
	}
	switch cut := len(open) - len(whole); {
	case len(parts) > 0 && len(whole) > 0:
		return parts, append(notes, fmt.Sprintf("%d of the node's %d GPUs are cut into MIG instances, and CUDA then shows no whole GPU; to use those, name them by UUID in CUDA_VISIBLE_DEVICES", cut, len(open)))
	case len(parts) > 0:
		return parts, notes
	case cut > 0:
		notes = append(notes, fmt.Sprintf("%d of the node's %d GPUs are in MIG mode and have no instance, so they cannot be used (nvidia-smi mig -cgi ... -C makes some, nvidia-smi -mig 0 ends the mode)", cut, len(open)))
	}
	return whole, notes
}

// instances returns the MIG instances of a GPU as devices.
func instances(g GPU) []GPU {
	parts := make([]GPU, 0, len(g.Instances))
	for _, in := range g.Instances {
		parts = append(parts, GPU{Index: -1, UUID: in.UUID, Name: in.Name, PCI: g.PCI, Minor: g.Minor, NUMA: g.NUMA, Parent: g.UUID})
	}
	return parts
}

// ambiguous says why CUDA's numbers may not be NVML's, "" if they are. CUDA
// puts the fastest model first unless CUDA_DEVICE_ORDER says otherwise, and
// only CUDA knows how fast a model is.
func ambiguous(open []GPU, grants Grants) string {
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
		return fmt.Sprintf("the GPUs of this node differ (%s) and CUDA numbers the fastest first, others than nvidia-smi: %s", strings.Join(models, ", "), fix)
	}
	if first, _, _ := strings.Cut(*grants.CUDA, ","); first == "" || strings.Contains(first, "-") {
		return ""
	}
	return fmt.Sprintf("the GPUs of this node differ (%s) and CUDA numbers the fastest first, so only CUDA knows which CUDA_VISIBLE_DEVICES=%s means: %s", strings.Join(models, ", "), *grants.CUDA, fix)
}
