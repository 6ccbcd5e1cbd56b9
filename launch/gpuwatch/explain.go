package gpuwatch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/device"
)

// failure is an error of a GPU of the job.
type failure struct {
	Ranks []int  // ranks of the GPU, ascending
	Text  string // one line: the GPU, its ranks and the error
	Fix   string
	// Critical says that --on-gpu-error=abort ends the round. Other failures are
	// warnings.
	Critical bool
}

// explainEvent explains what an event means for a job. ok is false if it means
// nothing: the event is no error, or the GPU belongs to no rank of this node. Without
// a plan, every GPU of the node may belong to the job.
func explainEvent(e device.Event, gpus []device.GPU, ranks []Rank) (f failure, ok bool) {
	n := nodeGPUs(gpus)
	planned := false
	for _, r := range ranks {
		planned = planned || len(r.GPUs) > 0
		if e.UUID != "" && n.concerns(e, r) {
			f.Ranks = append(f.Ranks, r.Rank)
		}
	}
	if e.UUID != "" && planned && len(f.Ranks) == 0 {
		return f, false
	}
	slices.Sort(f.Ranks)
	var x xid
	var text string
	switch e.Kind {
	case device.Xid:
		x = explainXid(e.Code)
		text = fmt.Sprintf("Xid %d: %s", e.Code, x.text)
	case device.DoubleBit:
		x = explainXid(48)
		text = x.text
	case device.Lost:
		x = explainXid(79)
		text = "the driver no longer reaches it"
		if e.Text != "" {
			text += " (" + e.Text + ")"
		}
	default:
		return f, false
	}
	f.Text = fmt.Sprintf("%s: %s", n.labelWithRanks(e.UUID, f.Ranks), text)
	f.Fix, f.Critical = x.fix, x.critical
	return f, true
}

// concerns reports whether an event concerns a rank. An error of a MIG instance does
// not concern the other instances of the GPU.
func (n nodeGPUs) concerns(e device.Event, r Rank) bool {
	if !n.isAssigned(r, e.UUID) {
		return false
	}
	for _, g := range n {
		for _, in := range g.Instances {
			if g.UUID == e.UUID && slices.Contains(r.GPUs, in.UUID) &&
				(differs(e.GI, in.GI) || differs(e.CI, in.CI)) {
				return false
			}
		}
	}
	return true
}

// differs reports whether both values are known and differ.
func differs(a, b *int) bool { return a != nil && b != nil && *a != *b }

// labelWithRanks names a GPU and its ranks.
func (n nodeGPUs) labelWithRanks(uuid string, ranks []int) string {
	if uuid == "" {
		return "a GPU of this node"
	}
	name := n.label(uuid)
	if name != uuid {
		name += " (" + uuid + ")"
	}
	switch len(ranks) {
	case 0:
		return name
	case 1:
		return fmt.Sprintf("%s of rank %d", name, ranks[0])
	}
	return fmt.Sprintf("%s of ranks %s", name, strings.Trim(fmt.Sprint(ranks), "[]"))
}
