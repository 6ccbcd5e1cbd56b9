package gpuwatch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/device"
)

// failure is an error of a GPU that concerns the job.
type failure struct {
	UUID  string // of the GPU; "": the driver does not say which GPU
	Xid   uint64 // 0: it is no Xid
	Class Class
	Ranks []int  // ranks that own the GPU, ascending
	Text  string // one line: the GPU, its ranks and the error
	Fix   string
	// Critical says that --on-gpu-error=abort ends the round. Other failures are
	// only worth a warning.
	Critical bool
}

// explainEvent explains what an event means for a job. ok is false if it means
// nothing: the event is no error, or no rank of this node owns the GPU. Without a
// plan, every GPU of the node may belong to the job.
func explainEvent(e device.Event, gpus []device.GPU, ranks []Rank) (c failure, ok bool) {
	n := node(gpus)
	planned := false
	for _, r := range ranks {
		planned = planned || len(r.Own) > 0
		if e.UUID != "" && n.hit(e, r) {
			c.Ranks = append(c.Ranks, r.Rank)
		}
	}
	if e.UUID != "" && planned && len(c.Ranks) == 0 {
		return c, false
	}
	slices.Sort(c.Ranks)
	c.UUID = e.UUID
	var what string
	switch e.Kind {
	case device.Xid:
		x := explainXid(e.Code)
		c.Xid, c.Class, c.Fix, c.Critical, what = e.Code, x.Class, x.Fix, x.Critical(), x.String()
	case device.DoubleBit:
		x := explainXid(48)
		c.Class, c.Fix, c.Critical, what = x.Class, x.Fix, true, x.Text
	case device.Lost:
		x := explainXid(79)
		c.Class, c.Fix, c.Critical, what = x.Class, x.Fix, true, "the driver does not reach it any more"
		if e.Text != "" {
			what += " (" + e.Text + ")"
		}
	default:
		return c, false
	}
	c.Text = fmt.Sprintf("%s: %s", n.labelOwned(e.UUID, c.Ranks), what)
	return c, true
}

// hit reports whether an event concerns a rank. An error of a MIG instance does not
// concern the other instances of the GPU.
func (n node) hit(e device.Event, r Rank) bool {
	if !n.owns(r, e.UUID) {
		return false
	}
	for _, g := range n {
		for _, in := range g.Instances {
			if g.UUID == e.UUID && slices.Contains(r.Own, in.UUID) &&
				(differs(e.GI, in.GI) || differs(e.CI, in.CI)) {
				return false
			}
		}
	}
	return true
}

// differs reports whether both values are known and differ.
func differs(a, b *int) bool { return a != nil && b != nil && *a != *b }

// labelOwned names a GPU and the ranks that own it.
func (n node) labelOwned(uuid string, ranks []int) string {
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
