package launch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/launch/preview"
	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/rendezvous"
)

// show tells what this node's workers of a world would get, in place of starting
// them: gorun env and --dry-run. For the others the round has ended well.
func (a *agent) show(p *plan) {
	if err := a.preview(p); err != nil {
		a.unshown = err
	}
	a.events.post(rendezvous.Done{Round: p.world.Round})
}

func (a *agent) preview(p *plan) (err error) {
	dry := a.opts.Spec.Dry
	if p.err != nil {
		return p.err
	}
	if n := len(p.world.Members); dry.Rank >= p.world.Size || dry.Node >= n {
		return &UsageError{Err: fmt.Errorf("there is no %s: this job has nodes 0 to %d and ranks 0 to %d", dry.What(), n-1, p.world.Size-1)}
	}
	errorFile := func(local int) string { return filepath.Join(p.folder, strconv.Itoa(local), "error.json") }
	all := []preview.Node{p.preview(errorFile)}
	if wrapper, doubt := a.wrapper(); doubt == nil {
		all[0].Wrapper = wrapper.Name()
	}
	mine := preview.Select(all, dry.Wants)
	if len(mine) == 0 && a.opts.Local == nil && !dry.JSON {
		a.console.say("%s is elsewhere: gorun env prints it there", dry.What())
	}
	var b bytes.Buffer // shown at once: other nodes of this machine may write, too
	if dry.Whole && !a.opts.quiet() {
		err = preview.WriteWorld(&b, &p.world)
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
func (p *plan) preview(errorFile func(local int) string) preview.Node {
	files, m := p.files(), p.member()
	n := preview.Node{Node: p.group, Host: m.Host, Addr: m.Addr, Removed: preview.Removals(p.base.Lost())}
	for local := range m.Workers {
		v := p.vars(local)
		v.ErrorFile = errorFile(local)
		n.Ranks = append(n.Ranks, preview.Rank{
			Rank: m.FirstRank + local, LocalRank: local, Command: ncclenv.ShownWords(p.command(local)), Devices: p.devices.Slot(local).Own,
			Env: preview.Variables(p.base.Explain(v, files...), p.world.Token),
		})
	}
	return n
}

// tellEnv answers gorun env about the workers that run here, beside the loop:
// their files may not have been read yet, and a file system may hang.
func (a *agent) tellEnv(reply chan<- status.Reply) {
	r := a.current
	if r == nil {
		reply <- status.Reply{Error: "no worker was started on this node yet"}
		return
	}
	errorFiles := map[int]string{}
	for _, w := range r.workers.Workers() {
		errorFiles[w.LocalRank] = w.Output.ErrorFile
	}
	go func() {
		n := r.plan.preview(func(local int) string { return errorFiles[local] })
		body, err := json.Marshal(n)
		if err != nil {
			reply <- status.Reply{Error: err.Error()}
			return
		}
		reply <- status.Reply{Env: body}
	}()
}
