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

// confTime bounds the time to read nccl.conf files, because a home may be on a file
// system that no longer answers.
const confTime = 3 * time.Second

// environment returns this node's report for the decision on the environment; nil
// if it cannot make one.
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

// ConfFiles returns the nccl.conf files that NCCL reads in workers with this
// environment and working directory. It returns none if that takes too long.
func ConfFiles(ctx context.Context, env []string, dir string) []ncclenv.File {
	ctx, cancel := context.WithTimeout(ctx, confTime)
	defer cancel()
	found := make(chan []ncclenv.File, 1)
	go func() { // not awaited: a file system may hang
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

// workerEnvironment returns the workers' environment for this node's facts. It leaves
// out what other nodes request; the coordinator adds that later.
func (x *Checker) workerEnvironment() []string {
	request := x.opts.Request
	request.Overrides = slices.DeleteFunc(slices.Clone(request.Overrides), func(a envprop.Override) bool { return a.To.By == envprop.ByNode })
	node := envprop.Node{Host: x.node.Host, Addr: x.node.Addr, Role: x.node.Role}
	a := envprop.Local{Node: node, Env: x.opts.Env, Request: request}.Assignment(0)
	env := slices.DeleteFunc(slices.Clone(x.opts.Env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return a.Removes(name)
	})
	for _, s := range slices.Concat(request.LocalAssignment().Set, a.Set) { // of two entries of a name the later counts
		env = append(env, s.Name+"="+s.Value.Reveal())
	}
	return env
}

// decodeReports returns the members' reports. An invalid report counts as not sent.
func decodeReports(c rendezvous.Compare) []envprop.Report {
	list := make([]envprop.Report, len(c.World.Members))
	for i := range list {
		if i < len(c.Envs) && c.Envs[i] != nil {
			list[i], _ = envprop.DecodeReport(c.Envs[i])
		}
		m := &c.World.Members[i] // from the world, because a report may claim to be of another node
		list[i].Node = envprop.Node{Host: m.Host, Addr: m.Addr, Role: m.Role}
	}
	return list
}

// formatValue returns the value of a variable as findings show it.
func formatValue(name string, g envprop.Group) string {
	if !g.Set {
		return name + " unset"
	}
	return name + "=" + strings.TrimSpace(g.Value)
}
