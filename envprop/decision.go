package envprop

import "fmt"

// Conflict is what becomes of a variable that has to agree and does not.
type Conflict string

const (
	ConflictFirst Conflict = "first" // the first node's word counts, the difference is shown
	ConflictError Conflict = "error" // the job does not start
)

// ParseConflict reads --env-conflict; "" is the default.
func ParseConflict(s string) (Conflict, error) {
	switch c := Conflict(s); c {
	case "":
		return ConflictFirst, nil
	case ConflictFirst, ConflictError:
		return c, nil
	default:
		return "", fmt.Errorf("--env-conflict %s: first or error is expected", line(s))
	}
}

// Policy is what the coordinator adds to the reports.
type Policy struct {
	Conflict Conflict
	// Trusted: the nodes have proven a secret to each other. Without one no node
	// takes from another what makes programs run or load code (ncclenv.RunsCode).
	Trusted bool
	Chosen  [][]Chosen // by group rank: what gorun computed for a node
}

// Chosen is a value that gorun computed for one node. It counts where the node
// has none; with Asked (--iface eth0) over the node's own, too.
type Chosen struct {
	Name, Value string
	Rule        string // why, as part of a sentence
	Asked       bool
}

// Decision is the environment of a world.
type Decision struct {
	Members     []Assignment // by group rank
	Differences []Difference // by name
	Notes       []string     // for the user, one line each
}
