package launch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/launch/pin"
	"github.com/gorun/gorun/launch/preview"
	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/rendezvous"
)

// show tells what this node's workers of a world would get, in place of starting
// them: gorun env and --dry-run. For the others the round has ended well.
func (a *agent) show(w *workers) {
	if err := a.preview(w); err != nil {
		a.unshown = err
	}
	a.events.post(rendezvous.Done{Round: w.world.Round})
}

func (a *agent) preview(w *workers) error {
	dry := a.opts.Spec.Dry
	attempt, err := w.cfg.folders.attempt(w.world.Restart)
	if w.unfit != nil {
		err = w.unfit
	}
	if err != nil {
		return err
	}
	if n := len(w.world.Members); dry.Rank >= w.world.Size || dry.Node >= n {
		return &UsageError{Err: fmt.Errorf("there is no %s: this job has nodes 0 to %d and ranks 0 to %d", dry.What(), n-1, w.world.Size-1)}
	}
	errorFile := func(local int) string { return filepath.Join(attempt, strconv.Itoa(local), "error.json") }
	all := []preview.Node{w.preview(errorFile)}
	if wrapper, doubt := a.wrapper(); doubt == nil {
		all[0].Wrapper = wrapper.Name()
	}
	mine := preview.Select(all, dry.Wants)
	if len(mine) == 0 && a.opts.Local == nil && !dry.JSON {
		a.console.say("%s is elsewhere: gorun env prints it there", dry.What())
	}
	var b bytes.Buffer // shown at once: other nodes of this machine may write, too
	if dry.Whole && !a.opts.quiet() {
		err = preview.WriteWorld(&b, &w.world)
	}
	switch {
	case err != nil:
	case dry.Whole:
		err = preview.WritePlan(&b, all[0])
	default:
		err = Print(&b, mine, dry.Diff, dry.JSON)
	}
	if err == nil {
		err = a.out.Print(b.Bytes())
	}
	return err
}

// Print writes the environments of ranks as gorun env does.
func Print(w io.Writer, nodes []preview.Node, diff, asJSON bool) error {
	if diff {
		nodes = preview.Diff(nodes)
	}
	if asJSON {
		return preview.WriteJSON(w, nodes)
	}
	return preview.WriteText(w, nodes)
}

// preview is what the workers get.
func (w *workers) preview(errorFile func(local int) string) preview.Node {
	files := w.conf()
	m := &w.world.Members[w.group]
	n := preview.Node{Node: w.group, Host: m.Host, Addr: m.Addr, Removed: preview.Removals(w.env.Lost())}
	for local := range m.Workers {
		v := w.vars(local)
		v.ErrorFile = errorFile(local)
		n.Ranks = append(n.Ranks, preview.Rank{
			Rank: m.FirstRank + local, LocalRank: local, Command: ncclenv.ShownWords(w.command(local)), Devices: w.devices(local),
			Env: preview.Variables(placed(w.env.Explain(v, files...), w.slot(local).set), w.world.Token),
		})
	}
	return n
}

// command is what is executed for a worker; the name that it is started under is
// the first word of Argv.
func (w *workers) command(local int) []string {
	if w.cfg.program.Argv == nil {
		return nil
	}
	return append([]string{w.cfg.program.Path}, w.cfg.program.Argv(local)[1:]...)
}

// devices tells a worker's own devices to a person.
func (w *workers) devices(local int) []string { return w.slot(local).own }

// placed is overlay for what an environment is explained by.
func placed(settings []envprop.Setting, set []pin.Variable) []envprop.Setting {
	for _, v := range set {
		settings = slices.DeleteFunc(settings, func(s envprop.Setting) bool { return s.Name == v.Name })
		settings = append(settings, envprop.Setting{
			Name: v.Name, Value: envprop.NewValue(v.Name, v.Value), Source: envprop.Source{Kind: envprop.FromGorun, Rule: "its devices, see --pin"},
		})
	}
	slices.SortStableFunc(settings, func(a, b envprop.Setting) int { return strings.Compare(a.Name, b.Name) })
	return settings
}

// tellEnv answers gorun env about the workers that run here, beside the loop:
// their files may not have been read yet, and a file system may hang.
func (a *agent) tellEnv(reply chan<- status.Reply) {
	w := a.current
	if w == nil {
		reply <- status.Reply{Error: "no worker was started on this node yet"}
		return
	}
	errorFiles := map[int]string{}
	w.mu.Lock()
	for _, wk := range w.list {
		errorFiles[wk.local] = wk.out.ErrorFile
	}
	w.mu.Unlock()
	go func() {
		n := w.preview(func(local int) string { return errorFiles[local] })
		body, err := json.Marshal(n)
		if err != nil {
			reply <- status.Reply{Error: err.Error()}
			return
		}
		reply <- status.Reply{Env: body}
	}()
}
