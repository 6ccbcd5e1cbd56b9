package check

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// maxNodes bounds a fleet that is read from files.
const maxNodes = 100_000

// Offline compares facts that were saved on their nodes, and writes the findings to
// out. code is the exit code of gorun check: 0, 1 with p.Check.Strict, or 78. An
// error means that a file cannot be used.
func Offline(p Policy, files []string, out io.Writer) (code int, err error) {
	if err := ValidateIgnore(p.Ignore); err != nil {
		return rendezvous.ExitUsage, err
	}
	a := savedFleet{source: map[string]string{}}
	for _, name := range files {
		if err := a.read(name); err != nil {
			return rendezvous.ExitUsage, err
		}
	}
	var reports []envprop.Report
	for i := range a.fleet.Nodes {
		reports = append(reports, reportOf(&a.fleet.Nodes[i]))
	}
	fleet := unify(&p, &a.fleet, reports).fleet
	found := runChecks(&p, fleet)
	o := passOutcome(&p, found, fleet)
	if preflight.Worst(found) == preflight.Error {
		o.Code = rendezvous.ExitPreflight
	}
	return o.Code, Print(out, o.Preflight, p.Check.JSON)
}

// reportOf returns the report on the environment that the agent that saved these
// facts would have sent.
func reportOf(f *preflight.Facts) envprop.Report {
	if f.Format == 0 {
		return envprop.Report{}
	}
	var env []string
	files := make([]ncclenv.File, len(f.ConfFiles))
	write := func(name, value, source string) {
		if i := slices.IndexFunc(f.ConfFiles, func(c ncclenv.ConfFile) bool { return c.Path == source }); i >= 0 {
			files[i].Facts.Path = source
			files[i].Entries = append(files[i].Entries, ncclenv.Entry{Name: name, Value: value})
		}
	}
	for _, v := range f.Settings {
		if v.Source == ncclenv.Environment {
			env = append(env, v.Name+"="+v.Value)
		} else {
			write(v.Name, v.Value, v.Source)
		}
		for _, h := range v.Hidden {
			write(v.Name, h.Value, h.Source)
		}
	}
	return envprop.NewReport(envprop.Node{Host: f.Node.Host, Addr: f.Node.Addr, Role: f.Node.Role}, env, files, envprop.Request{})
}

// Print writes the result of a comparison for the user of gorun check.
func Print(out io.Writer, v *rendezvous.CheckResult, asJSON bool) error {
	switch {
	case v == nil:
		return nil
	case asJSON:
		_, err := fmt.Fprintf(out, "%s\n", Findings(v))
		return err
	case v.Table == "":
		_, err := fmt.Fprintf(out, "preflight: nothing found on %s\n%s", countNodes(v.Nodes), v.Summary)
		return err
	default:
		_, err := io.WriteString(out, v.Table)
		if v.Summary != "" && err == nil {
			_, err = fmt.Fprintf(out, "\nWhat the nodes have:\n%s", v.Summary)
		}
		return err
	}
}

func countNodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// savedFleet is a fleet from files.
type savedFleet struct {
	fleet  preflight.Fleet
	source map[string]string // the file with the facts of a node, by keys that identify the node
}

// read adds the facts of one file, one JSON value for each node.
func (a *savedFleet) read(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	d := json.NewDecoder(io.LimitReader(f, 1<<30))
	for n := 0; ; n++ {
		var body json.RawMessage
		err := d.Decode(&body)
		if errors.Is(err, io.EOF) && n > 0 {
			return nil
		}
		var facts preflight.Facts
		if err == nil {
			facts, err = preflight.Decode(body)
		}
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%s is empty: gorun check --save writes such files", name)
		case err != nil:
			return fmt.Errorf("%s is not a file of gorun check --save: %w", name, err)
		case len(a.fleet.Nodes) == maxNodes:
			return fmt.Errorf("%s: more than %d nodes", name, maxNodes)
		}
		if err := a.add(facts, name); err != nil {
			return err
		}
	}
}

// add adds the facts of one node. It refuses a node that the fleet already has, because
// the node would agree with itself.
func (a *savedFleet) add(n preflight.Facts, name string) error {
	var keys []string
	if n.Node.ID != "" {
		keys = append(keys, "id "+n.Node.ID)
	}
	if h := n.Host; h.BootID != "" && h.NS.Net != "" && n.Node.Addr != "" { // the same node, saved twice
		// The kernel numbers the namespaces of two containers alike if one starts after the
		// other has ended.
		keys = append(keys, fmt.Sprintf("at %q %q %q %q", h.BootID, h.NS.Net, n.Node.Addr, n.Node.Host))
	}
	for _, key := range keys {
		first, ok := a.source[key]
		host := cmp.Or(n.Node.Host, n.Node.Addr, "one node")
		switch {
		case ok && first == name:
			return fmt.Errorf("%s is given twice: both are facts of %s", name, host)
		case ok:
			return fmt.Errorf("%s and %s are both facts of %s: give the facts of each node once", first, name, host)
		}
		a.source[key] = name
	}
	a.fleet.Nodes = append(a.fleet.Nodes, n)
	return nil
}
