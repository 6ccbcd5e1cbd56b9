package check

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous"
)

// confTime bounds the look at nccl.conf files: a home may be on a file system
// that is gone.
const confTime = 3 * time.Second

// environment is what this node tells for the decision; nil when it cannot.
func (x *Checker) environment(ctx context.Context) []byte {
	n := envprop.Node{Host: x.node.Host, Addr: x.node.Addr, Role: x.node.Role}
	files := ConfFiles(ctx, x.opts.Env, x.opts.Facts.Program.Dir)
	body, err := envprop.NewReport(n, x.opts.Env, files, x.opts.Request).Encode()
	if err != nil {
		x.opts.Console.Say("%v", err)
		return nil
	}
	return body
}

// ConfFiles are the nccl.conf files that NCCL reads in workers with this
// environment and working directory; none when that takes too long.
func ConfFiles(ctx context.Context, env []string, dir string) []ncclenv.File {
	ctx, cancel := context.WithTimeout(ctx, confTime)
	defer cancel()
	found := make(chan []ncclenv.File, 1)
	go func() { // not waited for: a file system that hangs must not keep the agent
		files, _ := ncclenv.Files(ncclenv.Options{Env: env, Dir: dir})
		found <- files
	}()
	select {
	case files := <-found:
		return files
	case <-ctx.Done():
		return nil
	}
}

// expected is the environment of the workers as far as this node decides it, for
// its facts. What another node asks for comes on top when all is decided.
func (x *Checker) expected() []string {
	n := envprop.Node{Host: x.node.Host, Addr: x.node.Addr, Role: x.node.Role}
	mine := x.opts.Request
	mine.Asks = slices.DeleteFunc(slices.Clone(mine.Asks), func(a envprop.Ask) bool { return a.To.By == envprop.ByNode })
	a := Alone(n, x.opts.Env, mine)
	env := slices.DeleteFunc(slices.Clone(x.opts.Env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return a.Removes(name)
	})
	for _, s := range slices.Concat(mine.Keep().Set, a.Set) { // of an entry that comes twice the later counts
		env = append(env, s.Name+"="+s.Value.Reveal())
	}
	return env
}

// Alone decides for a node that has no others.
func Alone(n envprop.Node, env []string, r envprop.Request) envprop.Assignment {
	return AloneAt(0, n, env, r)
}

// AloneAt is what a node of a group rank would decide if no other sent anything.
func AloneAt(rank int, n envprop.Node, env []string, r envprop.Request) envprop.Assignment {
	reports := make([]envprop.Report, rank+1)
	reports[rank] = envprop.NewReport(n, env, nil, r)
	return envprop.Unify(reports, envprop.Policy{}).Members[rank]
}

// reports are what the members sent. What makes no sense counts as not sent.
func reports(c rendezvous.Compare) []envprop.Report {
	list := make([]envprop.Report, len(c.World.Members))
	for i := range list {
		if i < len(c.Envs) && c.Envs[i] != nil {
			list[i], _ = envprop.DecodeReport(c.Envs[i])
		}
		m := &c.World.Members[i] // whatever the report says
		list[i].Node = envprop.Node{Host: m.Host, Addr: m.Addr, Role: m.Role}
	}
	return list
}

// shown is how a finding tells the value of a variable.
func shown(name string, g envprop.Group) string {
	if !g.Set {
		return name + " unset"
	}
	return name + "=" + strings.TrimSpace(g.Value)
}
