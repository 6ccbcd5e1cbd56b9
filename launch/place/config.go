package place

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"github.com/gorun/gorun/internal/environ"
	"github.com/gorun/gorun/launch/device"
)

// Driver is the GPU driver of a node. A child process calls it (device.Child),
// because the driver may hang or crash.
type Driver interface {
	HasDriver() bool     // the node has a driver
	HasDeviceFile() bool // this process may call the driver; a container without GPUs sees it only in /proc
	List(ctx context.Context) ([]device.GPU, error)
	// Survey passes its answer to use, and returns later, when all is cleaned up.
	Survey(ctx context.Context, use func(device.Survey))
}

// Config holds what a node's agent knows before it asks the driver.
type Config struct {
	Options Options
	Host    string // for messages
	Env     []string
	Agents  int  // agents of this machine that each start as many workers; 0: only this agent
	Threads bool // workers get their part of the cores as OMP_NUM_THREADS
	Driver  Driver
	Root    fs.FS // with /proc and /sys
}

// Inventory holds what the driver says about a node's GPUs.
type Inventory struct {
	Known      bool         // false: the driver was not asked, or did not answer
	All        []device.GPU // all GPUs of the node
	Visibility device.Visibility
	Survey     device.Survey // set only if the preflight wants to know everything
}

// Workers describes the workers of a plan.
type Workers struct {
	Count int
	Skip  int  // workers of other agents of this machine, which come before these
	Facts bool // the preflight wants to know everything about the GPUs
}

// HasGPUs reports whether the node has a driver, and not all its GPUs are hidden.
func (c Config) HasGPUs() bool { return c.Driver.HasDriver() && !c.hidesGPUs() }

// hidesGPUs reports whether CUDA_VISIBLE_DEVICES hides all GPUs. Slurm writes
// NoDevFiles for that.
func (c Config) hidesGPUs() bool {
	list := c.visibleList()
	return list != nil && (*list == "" || *list == "-1" || *list == "NoDevFiles")
}

// visibleList returns CUDA_VISIBLE_DEVICES of the environment; nil: it is not set.
func (c Config) visibleList() *string {
	if value, ok := environ.Lookup(c.Env, visibleDevices); ok {
		return &value
	}
	return nil
}

// inventory finds the GPUs of the node that the workers may use.
func (c Config) inventory(all []device.GPU) Inventory {
	s := Inventory{Known: true, All: all, Visibility: device.FindVisible(all, device.ReadGrants(c.Env))}
	if len(all) == 0 && c.Driver.HasDeviceFile() {
		s.Visibility.NoneReason = "its driver shows this process none, as in a job or a container that was given none"
	}
	return s
}

// makePlan makes the plan. It first asks the driver, if something depends on the
// answer and s is not known yet. Its errors are errors of the command line (exit
// code 2); the plan then holds the inventory and the notes.
func (c Config) makePlan(ctx context.Context, s Inventory, w Workers) (Plan, error) {
	notes, err := c.completeInventory(ctx, &s, w.Facts)
	if err != nil {
		return Plan{Inventory: s}, err
	}
	n := Node{Name: c.Host, Workers: w.Count, Skip: w.Skip, All: max(c.Agents, 1) * w.Count, List: c.visibleList(), Visibility: s.Visibility}
	if !s.Known && c.hidesGPUs() && c.Driver.HasDeviceFile() {
		n.NoneReason = fmt.Sprintf("CUDA_VISIBLE_DEVICES=%s hides all", *n.List)
	}
	p, err := Make(n, c.Options)
	p.Inventory, p.Notes = s, slices.Concat(s.Visibility.Notes, notes, p.Notes)
	if err == nil {
		err = c.bind(&p, n)
	}
	return p, err
}

// recount replaces the inventory with which the workers were counted, if the survey shows
// the workers other GPUs: of a GPU in MIG mode without an instance only the survey
// knows. It returns an error if their number differs.
func (c Config) recount(s *Inventory) error {
	now := c.inventory(s.Survey.Usable)
	before, after := s.Visibility.Visible, now.Visibility.Visible
	if slices.EqualFunc(before, after, func(a, b device.GPU) bool { return a.UUID == b.UUID }) {
		return nil
	}
	now.Survey = s.Survey
	*s = now
	if len(before) == len(after) {
		return nil
	}
	why := ""
	if notes := now.Visibility.Notes; len(notes) > 0 {
		why = ": " + notes[len(notes)-1]
	}
	return fmt.Errorf("cannot count the workers by GPU: %s by the driver's files, and %d by its library%s; name a number, --nproc-per-node %d", visibleGPUs(len(before)), len(after), why, max(len(after), 1))
}

// completeInventory asks the driver for what the inventory lacks. Its notes say why
// something stays unknown.
func (c Config) completeInventory(ctx context.Context, s *Inventory, facts bool) (notes []string, err error) {
	o := c.Options
	if !c.HasGPUs() || !facts && o.Mode == None && o.Binding == "" {
		return nil, nil
	}
	if facts {
		c.Driver.Survey(ctx, func(answer device.Survey) { s.Survey = answer })
	}
	survey := s.Survey
	if s.Known {
		if facts && survey.UsableErr == nil {
			err = c.recount(s)
		}
		return nil, err
	}
	all, err := survey.Usable, survey.UsableErr
	if !facts {
		all, err = c.Driver.List(ctx)
	}
	switch {
	case err == nil:
		*s = c.inventory(all)
	case !c.Driver.HasDeviceFile(): // a container without GPUs sees the driver in /proc
		*s = c.inventory(nil)
	case o.Strict() || o.Binding != "":
		return nil, err
	default:
		notes = append(notes, fmt.Sprintf("no worker gets a GPU of its own, and CUDA_VISIBLE_DEVICES stays as it is: %v", err))
	}
	s.Survey = survey
	return notes, nil
}
