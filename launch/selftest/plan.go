package selftest

import (
	"fmt"
	"time"
)

// Plan is one step of the ladder: groups of ranks that test at the same time.
type Plan struct {
	Step     int // from 0
	Rung     string
	Round    int // of a rung that has several, from 1
	Kind     Kind
	Compute  Compute
	Sizes    []int // bytes of a rank's buffer; of an all-to-all, for each pair
	Groups   []Group
	Deadline time.Duration // of each process
	Last     bool          // no step follows
}

// Group is the ranks of one test, and the node of each.
type Group struct {
	Ranks []int
	Nodes []int
}

// Task is what one rank does in a step of the ladder.
type Task struct {
	Step     int           `json:"step"`
	Group    int           `json:"group"` // its number in the step
	Kind     Kind          `json:"kind"`
	Compute  Compute       `json:"compute"`
	Sizes    []int         `json:"sizes,omitempty"`
	Deadline time.Duration `json:"deadline"`
	Place    Place         `json:"place"`
	Last     bool          `json:"last,omitempty"` // no task follows
}

// Place is the place of a rank in its group, as in a world of its own.
type Place struct {
	Rank   int `json:"rank"`
	Size   int `json:"size"`
	Local  int `json:"local_rank"`
	Locals int `json:"local_size"`
	Node   int `json:"node"`
	Nodes  int `json:"nodes"`
}

// rankTask is the task of a rank of the job.
type rankTask struct {
	Rank int
	Task
}

// tasks returns the task of each rank that takes part.
func (p *Plan) tasks() []rankTask {
	var tasks []rankTask
	for i, g := range p.Groups {
		for j, place := range g.places() {
			tasks = append(tasks, rankTask{g.Ranks[j], Task{p.Step, i, p.Kind, p.Compute, p.Sizes, p.Deadline, place, p.Last}})
		}
	}
	return tasks
}

// places returns the place of each rank of the group.
func (g *Group) places() []Place {
	numbers, locals := make(map[int]int), make(map[int]int) // by node of the job
	places := make([]Place, len(g.Ranks))
	for i, node := range g.Nodes {
		if _, known := numbers[node]; !known {
			numbers[node] = len(numbers)
		}
		places[i] = Place{Rank: i, Size: len(g.Ranks), Local: locals[node], Node: numbers[node]}
		locals[node]++
	}
	for i, node := range g.Nodes {
		places[i].Locals, places[i].Nodes = locals[node], len(numbers)
	}
	return places
}

// text returns what the step does, in a few words.
func (p *Plan) text() string {
	largest := 0
	for _, g := range p.Groups {
		largest = max(largest, len(g.Ranks))
	}
	name := p.Rung
	if p.Round > 0 {
		name = fmt.Sprintf("%s, round %d", name, p.Round)
	}
	if len(p.Groups) == 1 && largest == 1 {
		return name + ": 1 rank"
	} else if len(p.Groups) == 1 {
		return fmt.Sprintf("%s: %s together", name, counted(largest, "rank"))
	}
	return fmt.Sprintf("%s: %d groups of %d at once", name, len(p.Groups), largest)
}
