package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/host"
	"github.com/gorun/gorun/rendezvous/preflight/library"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
	"github.com/gorun/gorun/rendezvous/preflight/preflighttest"
	"github.com/gorun/gorun/rendezvous/preflight/reach"
)

// scene is a fleet before one environment is decided for it, and the options
// that its user gives gorun on each node.
type scene struct {
	fleet   *preflight.Fleet
	options []envprop.Options
	iface   string
}

// clone returns a copy of the scene, on which a fix is tried.
func (s *scene) clone(t *testing.T) *scene {
	t.Helper()
	own := *s.fleet
	own.Nodes = make([]preflight.Facts, len(s.fleet.Nodes))
	for i := range own.Nodes {
		body, err := json.Marshal(s.fleet.Nodes[i])
		if err == nil {
			err = json.Unmarshal(body, &own.Nodes[i])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	own.Probes = slices.Clone(own.Probes)
	c := &scene{fleet: &own, iface: s.iface}
	for i := range own.Nodes {
		o := envprop.Options{}
		if i < len(s.options) {
			o.X, o.Unset = slices.Clone(s.options[i].X), slices.Clone(s.options[i].Unset)
		}
		c.options = append(c.options, o)
	}
	return c
}

// compare decides one environment, as the coordinator does, and applies the
// rules.
func (s *scene) compare(t *testing.T) []preflight.Finding {
	t.Helper()
	f := s.clone(t).fleet
	var reports []envprop.Report
	for i := range f.Nodes {
		reports = append(reports, s.report(t, i, &f.Nodes[i]))
	}
	d := envprop.Unify(reports, envprop.Policy{Chosen: s.chosen(f)})
	made := f.Differences
	f.Differences = nil
	for _, x := range d.Differences {
		y := preflight.Difference{Name: x.Name, Text: x.Text, Requested: x.Requested, Remains: x.Remains, Error: x.Error, Targeted: x.Targeted}
		for _, g := range x.Groups {
			text := x.Name + " unset"
			if g.Set {
				text = x.Name + "=" + strings.TrimSpace(g.Value)
			}
			y.Values = append(y.Values, preflight.Value{Value: text, Nodes: g.Nodes})
		}
		f.Differences = append(f.Differences, y)
	}
	if len(made) > 0 && len(f.Differences) == 0 && len(f.Nodes[0].Settings) == 0 {
		f.Differences = made
	}
	for i := range f.Nodes {
		setSettings(&f.Nodes[i], d.Members[i])
	}
	return preflight.Compare(f, All(), preflight.Options{})
}

func (s *scene) report(t *testing.T, i int, f *preflight.Facts) envprop.Report {
	t.Helper()
	if f.Format == 0 {
		return envprop.Report{}
	}
	var env []string
	files := map[string]*ncclenv.File{}
	for _, v := range f.Settings {
		for _, from := range append([]ncclenv.From{{Value: v.Value, Source: v.Source}}, v.Hidden...) {
			if from.Source == ncclenv.Environment {
				env = append(env, v.Name+"="+from.Value)
				continue
			}
			if files[from.Source] == nil {
				files[from.Source] = &ncclenv.File{Facts: ncclenv.ConfFile{Path: from.Source}}
			}
			files[from.Source].Entries = append(files[from.Source].Entries, ncclenv.Entry{Name: v.Name, Value: from.Value})
		}
	}
	var list []ncclenv.File
	for _, name := range slices.Sorted(maps.Keys(files)) {
		list = append(list, *files[name])
	}
	var o envprop.Options
	if i < len(s.options) {
		o = s.options[i]
	}
	r, err := envprop.NewRequest(o, env)
	if err != nil {
		t.Fatalf("gorun refuses what it said itself: %v", err)
	}
	return envprop.NewReport(envprop.Node{Host: f.Node.Host, Addr: f.Node.Addr, Role: f.Node.Role}, env, list, r)
}

// chosen returns the variables that --iface gives each node, and adds to the
// fleet what it cannot choose.
func (s *scene) chosen(f *preflight.Fleet) [][]envprop.Chosen {
	if s.iface == "" {
		return nil
	}
	out := make([][]envprop.Chosen, len(f.Nodes))
	var nodes []netif.Facts
	var reached []string
	for _, n := range f.Nodes {
		nodes, reached = append(nodes, n.Network), append(reached, n.Node.Addr)
	}
	p := netif.Suggest(nodes, reached)
	if s.iface == "auto" && !p.Works() {
		f.IfaceError = p.Why
		return nil
	}
	for i := range f.Nodes {
		name, err := p.Nodes[i].Iface, error(nil)
		if s.iface != "auto" {
			name, err = netif.ByRequest(f.Nodes[i].Network, s.iface)
		}
		if err != nil {
			f.Nodes[i].Unknown = append(f.Nodes[i].Unknown, preflight.Unknown{Source: preflight.IfaceSource, Why: err.Error()})
			continue
		}
		for _, v := range [][2]string{{"NCCL_SOCKET_IFNAME", "=" + name}, {"GLOO_SOCKET_IFNAME", name}, {"TP_SOCKET_IFNAME", name}, {"UCX_NET_DEVICES", name}} {
			out[i] = append(out[i], envprop.Chosen{Name: v[0], Value: v[1], Requested: true})
		}
	}
	return out
}

// setSettings gives the node's workers the decided settings.
func setSettings(n *preflight.Facts, a envprop.Assignment) {
	var list []ncclenv.Value
	for _, v := range n.Settings {
		switch {
		case slices.ContainsFunc(a.Set, func(s envprop.Setting) bool { return s.Name == v.Name }):
		case v.Source == ncclenv.Environment && a.Removes(v.Name):
			if len(v.Hidden) > 0 {
				list = append(list, ncclenv.Value{Name: v.Name, Value: v.Hidden[0].Value, Source: v.Hidden[0].Source, Hidden: v.Hidden[1:]})
			}
		default:
			list = append(list, v)
		}
	}
	for _, s := range a.Set {
		list = append(list, ncclenv.Value{Name: s.Name, Value: s.Value.Reveal(), Source: ncclenv.Environment})
	}
	slices.SortStableFunc(list, func(a, b ncclenv.Value) int { return strings.Compare(a.Name, b.Name) })
	n.Settings = list
}

// alternatives splits the steps of a fix where another way begins.
func alternatives(steps []preflight.Step) [][]preflight.Step {
	var out [][]preflight.Step
	for i, s := range steps {
		if i == 0 || s.Or {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], s)
	}
	return out
}

// TestEveryFixWorksWhenPasted pastes each way of every fix where the fix says.
// After that the finding must be absent, and no warning or error may be new or
// graver.
func TestEveryFixWorksWhenPasted(t *testing.T) {
	all, seen := cases(), newPasted()
	for _, id := range slices.Sorted(maps.Keys(all)) {
		for _, c := range all[id] {
			if c.severity == "" {
				continue
			}
			t.Run(id+" "+c.name, func(t *testing.T) {
				s := &scene{fleet: c.fleet()}
				before := s.compare(t)
				for _, x := range findingsOf(id, before) {
					if x.Matrix != nil { // TestEveryFixOfProbes tries it
						continue
					}
					seen.try(t, s, before, x)
				}
			})
		}
	}
	seen.parseWithShell(t)
	for _, r := range All() {
		switch {
		case isProbed(r.ID):
		case r.Steps == nil:
			t.Errorf("%s: no steps", r.ID)
		case !seen.rules[r.ID]:
			t.Errorf("%s: no case of cases() shows a fix of it", r.ID)
		}
	}
}

// pasted records what was tried.
type pasted struct {
	rules, byHand map[string]bool
	lines         map[string]bool
}

func newPasted() *pasted {
	return &pasted{map[string]bool{}, map[string]bool{}, map[string]bool{}}
}

// isProbed reports whether probes make the finding. TestEveryFixOfProbes tries
// its fix.
func isProbed(id string) bool {
	return slices.ContainsFunc(reach.Rules(), func(r preflight.Rule) bool { return r.ID == id })
}

func (p *pasted) try(t *testing.T, s *scene, before []preflight.Finding, x preflight.Finding) {
	t.Helper()
	if len(x.Steps) == 0 {
		t.Errorf("no steps: %s", x.Fix)
	}
	for _, way := range alternatives(x.Steps) {
		p.rules[x.ID] = true
		if p.isByHand(t, x.ID, way) {
			continue
		}
		for _, wrong := range s.after(t, way, before, x) {
			t.Errorf("%s:\n%s", fmt.Sprintf("%+v", way), wrong)
		}
	}
}

// isByHand checks a way without a fleet, and reports whether a person has to do
// it.
func (p *pasted) isByHand(t *testing.T, id string, way []preflight.Step) bool {
	t.Helper()
	byHand, changes := false, false
	for _, step := range way {
		p.check(t, step)
		changes = changes || step.Place != preflight.ToShow
		if step.Place == preflight.ByHand {
			byHand = true
			key := reasonKey(id, step.Text)
			if key == "" {
				t.Errorf("not in stepsByHand: %s %q", id, step.Text)
			}
			p.byHand[key] = true
		}
	}
	if !changes {
		t.Errorf("%s: a way that changes nothing, and no person does: %+v", id, way)
	}
	return byHand
}

// after says what is wrong after a way was pasted: the finding is still there,
// or there is a new one.
func (s *scene) after(t *testing.T, way []preflight.Step, before []preflight.Finding, x preflight.Finding) (wrong []string) {
	t.Helper()
	then := s.clone(t)
	for _, step := range way {
		then.paste(t, step)
	}
	for _, y := range then.compare(t) {
		switch {
		case y.ID == x.ID && y.Severity == x.Severity && y.Text == x.Text && overlap(preflight.Marked(x.Values), preflight.Marked(y.Values)):
			wrong = append(wrong, fmt.Sprintf("the finding stays: %s %v", y.Text, y.Values))
		case y.Severity != preflight.Note && !slices.ContainsFunc(before, func(z preflight.Finding) bool { return z.ID == y.ID && !y.Severity.WorseThan(z.Severity) }):
			wrong = append(wrong, fmt.Sprintf("a finding is new: %s %s %s %v", y.Severity, y.ID, y.Text, y.Values))
		}
	}
	return wrong
}

// TestEveryFixOfTheCatalogueWorks checks that the examples of docs/checks.md
// also work in some fleet that has the finding.
func TestEveryFixOfTheCatalogueWorks(t *testing.T) {
	all, seen := cases(), newPasted()
	for _, r := range All() {
		if isProbed(r.ID) {
			continue
		}
		for _, way := range alternatives(r.Steps) {
			if seen.isByHand(t, r.ID, way) {
				continue
			}
			works := false
			for _, c := range all[r.ID] {
				if c.severity == "" || works {
					continue
				}
				s := &scene{fleet: c.fleet()}
				before := s.compare(t)
				for _, x := range findingsOf(r.ID, before) {
					rule := preflight.Rule{ID: x.ID, Check: func(*preflight.Fleet) []preflight.Finding {
						return []preflight.Finding{{Values: x.Values, Steps: slices.Clone(way)}}
					}}
					steps := preflight.Compare(s.fleet, []preflight.Rule{rule}, preflight.Options{})[0].Steps
					works = works || x.Matrix == nil && len(s.after(t, steps, before, x)) == 0
				}
			}
			if !works {
				t.Errorf("%s: it works in no case: %s", r.ID, fmt.Sprintf("%+v", way))
			}
		}
	}
	seen.parseWithShell(t)
}

func overlap(a, b []int) bool {
	return slices.ContainsFunc(a, func(i int) bool { return slices.Contains(b, i) })
}

// reasonKey finds a text in stepsByHand.
func reasonKey(id, text string) string {
	for key := range stepsByHand() {
		if rule, begin, _ := strings.Cut(key, " "); rule == id && strings.HasPrefix(text, begin) {
			return key
		}
	}
	return ""
}

// check checks what can be checked of a step without a fleet.
func (p *pasted) check(t *testing.T, s preflight.Step) {
	t.Helper()
	if (s.Place == preflight.ByHand) != (len(s.Lines) == 0) {
		t.Errorf("a step by hand has no lines, and every other one has: %+v", s)
	}
	for _, line := range s.Lines {
		if strings.Contains(line, "\n") || strings.TrimSpace(line) != line || line == "" {
			t.Errorf("%q is not one line", line)
		}
		switch s.Place {
		case preflight.ToGorun:
			p.lines["gorun "+line] = true
		case preflight.ToContainer:
			p.lines["docker run "+line] = true
		default:
			p.lines[line] = true
		}
		if words := split(t, line); words[0] == "ping" && !slices.Contains(words, "-c") {
			t.Errorf("%q does not end by itself", line)
		}
	}
}

// parseWithShell makes a shell parse all lines without running them.
func (p *pasted) parseWithShell(t *testing.T) {
	t.Helper()
	lines := slices.Sorted(maps.Keys(p.lines))
	cmd := exec.CommandContext(t.Context(), "bash", "-n")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); (err != nil || len(out) > 0) && !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("bash does not read the lines: %v %s\n%s", err, out, strings.Join(lines, "\n"))
	}
}

// split splits a line into words as a shell does, as far as fixes need it.
func split(t *testing.T, line string) []string {
	t.Helper()
	var words []string
	var word strings.Builder
	open, any, depth, last := rune(0), false, 0, rune(0)
	for _, c := range line {
		if c == '(' && last == '$' || c == '(' && depth > 0 {
			depth++
		}
		last = c
		if depth > 0 {
			word.WriteRune(c)
			if c == ')' {
				depth--
			}
			continue
		}
		switch {
		case open != 0 && c == open:
			open = 0
		case open != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			open, any = c, true
		case c == ' ':
			if any || word.Len() > 0 {
				words = append(words, word.String())
			}
			word.Reset()
			any = false
		default:
			word.WriteRune(c)
		}
	}
	if open != 0 {
		t.Errorf("%q: a quote is left open", line)
	}
	if any || word.Len() > 0 {
		words = append(words, word.String())
	}
	return words
}

// paste changes facts as a step says.
func (s *scene) paste(t *testing.T, step preflight.Step) {
	t.Helper()
	nodes := step.Nodes
	if nodes == nil {
		nodes = s.fleet.AllNodes()
	}
	for _, line := range step.Lines {
		words := split(t, line)
		switch step.Place {
		case preflight.ToGorun:
			if step.Nodes == nil && !step.Everyone { // any node will do
				nodes = nodes[len(nodes)-1:]
			}
			for _, i := range nodes {
				s.flag(t, i, words)
			}
		case preflight.InShell, preflight.AsRoot:
			for _, i := range nodes {
				s.command(t, i, words, line)
			}
		case preflight.ToContainer:
			for _, i := range nodes {
				s.docker(t, i, words)
			}
		case preflight.ToProgram:
			for _, i := range nodes {
				passOn(&s.fleet.Nodes[i], words)
			}
		}
	}
}

// flag starts gorun on a node with these options.
func (s *scene) flag(t *testing.T, i int, words []string) {
	t.Helper()
	n := &s.fleet.Nodes[i]
	for len(words) > 0 {
		name, value := words[0], ""
		if words = words[1:]; name != "--oversubscribe-gpus" {
			if len(words) == 0 {
				t.Fatalf("%s without a value", name)
			}
			value, words = words[0], words[1:]
		}
		switch name {
		case "-x":
			s.options[i].X = append(s.options[i].X, value)
		case "--unset":
			s.options[i].Unset = append(s.options[i].Unset, value)
		case "--iface":
			s.iface = value
			n.Unknown = slices.DeleteFunc(n.Unknown, func(u preflight.Unknown) bool { return u.Source == preflight.IfaceSource })
			s.fleet.IfaceError = ""
		case "--nproc-per-node":
			workers, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			n.Node.Workers = workers
		case "--oversubscribe-gpus":
			n.GPU.Owned, n.GPU.Shared = nil, true
		case "--node-rank":
			n.Node.NodeRank, _ = strconv.Atoi(value)
		case "--rdzv-id":
			n.Node.RunID = value
		case "--local-addr":
			n.Node.Addr = value
			if _, port, err := net.SplitHostPort(s.fleet.Master); i == 0 && err == nil {
				s.fleet.Master = net.JoinHostPort(value, port)
			}
		default:
			t.Fatalf("gorun %s: this test does not know it", name)
		}
	}
}

// docker starts the node's container anew with these options.
func (s *scene) docker(t *testing.T, i int, words []string) {
	t.Helper()
	n := &s.fleet.Nodes[i]
	for k := 0; k < len(words); k++ {
		w := words[k]
		if (w == "--ulimit" || w == "--gpus" || w == "-v") && k+1 < len(words) {
			k++
			w += "=" + words[k]
		}
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "--shm-size":
			n.Host.SHM.Size = amount(t, value)
			n.Host.SHM.Free = n.Host.SHM.Size
		case "--ulimit":
			what, limit, _ := strings.Cut(value, "=")
			_, hard, _ := strings.Cut(limit, ":")
			setLimit(n, t, what, amount(t, orText(hard, limit)))
		case "--pids-limit":
			n.Host.Limits.PidsMax = amount(t, value)
		case "--memory":
			n.Host.Limits.MemMax = amount(t, value)
		case "--gpus":
			openDevices(n)
			n.Host.ProcGPU = true
			if o := preflighttest.H100s(i + 1).Nodes[i]; !n.GPU.Driver {
				n.GPU, n.Host.DevNodes = o.GPU, o.Host.DevNodes
			}
			if _, list, ok := strings.Cut(value, "device="); ok {
				seeGPUs(n, strings.Split(strings.Trim(list, `"`), ","))
			}
		case "--network": // the machine has an address of its own
			address(n, "eth0", fmt.Sprintf("10.0.200.%d", i+1), 16)
			n.Network.Hostname = []string{fmt.Sprintf("10.0.200.%d", i+1)}
		case "--ipc":
			for _, o := range s.fleet.Nodes {
				if o.Host.BootID == n.Host.BootID {
					n.Host.SHM.Dev = o.Host.SHM.Dev
					break
				}
			}
		case "--uts":
			n.Host.Hostname = "machine of " + n.Host.BootID
		case "--device":
			for k := range n.RDMA.Nodes {
				n.RDMA.Nodes[k].Error = ""
			}
		case "--cap-add":
		case "-v":
			n.Host.SysPCI = true
		default:
			t.Fatalf("docker run %s: this test does not know it", w)
		}
	}
}

// passOn makes the wrapper before the workers' program pass on the variables
// that these words name.
func passOn(n *preflight.Facts, words []string) {
	if l := n.WrapperLoss; l != nil {
		for _, list := range []*[]string{&l.Missing, &l.Changed, &l.Forced, &l.Unsent} {
			*list = slices.DeleteFunc(*list, func(name string) bool {
				return slices.ContainsFunc(words, func(w string) bool {
					return slices.Contains(strings.FieldsFunc(w, func(r rune) bool { return r == ',' || r == '=' }), name)
				})
			})
		}
	}
}

func orText(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// amount reads 8g, 65536, unlimited, -1.
func amount(t *testing.T, text string) int64 {
	t.Helper()
	if text == "unlimited" {
		return host.Unlimited
	}
	shift := 0
	switch strings.ToLower(text[len(text)-1:]) {
	case "g":
		shift = 30
	case "m":
		shift = 20
	}
	number := text
	if shift > 0 {
		number = text[:len(text)-1]
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		t.Fatalf("%q is no amount: %v", text, err)
	}
	return n << shift
}

func setLimit(n *preflight.Facts, t *testing.T, what string, value int64) {
	t.Helper()
	l := &n.Host.Limits
	switch what {
	case "nofile":
		l.NoFileSoft, l.NoFileHard = value, value
	case "memlock":
		l.MemLock, l.MemLockSoft = value, value
	case "nproc":
		l.NProc = value
	case "as":
		l.AS = value
	case "stack":
		l.Stack = value
	case "cpu":
		l.CPU = &value
	case "fsize":
		l.FSize = &value
	case "data":
		l.Data = &value
	default:
		t.Fatalf("limit %s: this test does not know it", what)
	}
}

func openDevices(n *preflight.Facts) {
	for k := range n.Host.DevNodes {
		n.Host.DevNodes[k].Error = ""
	}
}

// command runs a line in a shell of a node: in the shell that starts gorun, or
// in root's.
func (s *scene) command(t *testing.T, i int, words []string, line string) {
	t.Helper()
	n := &s.fleet.Nodes[i]
	if words[0] == "sudo" {
		words = words[1:]
	}
	for len(words) > 1 && strings.HasPrefix(words[0], "PIP_") {
		words = words[1:]
	}
	switch args := words[1:]; path.Base(words[0]) {
	case "rm": // -rf SITE/nvidia/nccl SITE/nvidia_nccl_cu*.dist-info
		site := strings.TrimSuffix(args[1], "/nvidia/nccl")
		n.Libraries.Wheels = slices.DeleteFunc(n.Libraries.Wheels, func(w library.Wheel) bool { return w.Site == site })
	case "export":
		for _, a := range args {
			name, value, _ := strings.Cut(a, "=")
			switch {
			case strings.HasPrefix(value, "$(cat /proc/sys/kernel/random/boot_id)"):
				value = strings.NewReplacer("$(cat /proc/sys/kernel/random/boot_id)", n.Host.BootID, "$(stat -c %d /dev/shm)", fmt.Sprint(n.Host.SHM.Dev)).Replace(value)
			case value == "$(cat /proc/sys/kernel/random/uuid)":
				value = fmt.Sprint("uuid of ", i)
			case strings.Contains(value, "$"):
				t.Fatalf("this test does not know %s", a)
			}
			export(n, name, value)
		}
	case "unset":
		for _, name := range args {
			setSettings(n, envprop.Assignment{Unset: []envprop.Removal{{Name: name}}})
			if name == "CUDA_VISIBLE_DEVICES" {
				seeGPUs(n, nil)
			}
		}
	case "ulimit":
		kind := map[string]string{"-s": "stack", "-n": "nofile", "-l": "memlock", "-u": "nproc", "-v": "as"}[args[len(args)-2]]
		value := amount(t, args[len(args)-1])
		if kind == "stack" && value > 0 {
			value <<= 10
		}
		setLimit(n, t, kind, value)
	case "prlimit":
		for _, a := range args {
			name, value, ok := strings.Cut(strings.TrimPrefix(a, "--"), "=")
			if _, hard, both := strings.Cut(value, ":"); ok && both {
				setLimit(n, t, name, amount(t, hard))
			}
		}
	case "mount":
		_, size, _ := strings.Cut(line, "size=")
		size, _, _ = strings.Cut(size, " ")
		used := n.Host.SHM.Size - n.Host.SHM.Free
		n.Host.SHM.Size = amount(t, size)
		n.Host.SHM.Free = n.Host.SHM.Size - used
	case "sysctl":
		for _, a := range args[1:] {
			name, text, _ := strings.Cut(a, "=")
			if name == "net.ipv4.ip_local_port_range" {
				_, _ = fmt.Sscan(text, &n.Network.PortFirst, &n.Network.PortLast)
				continue
			}
			sysctl(n, t, name, amount(t, text))
		}
	case "ip": // link set dev NAME mtu N
		mtu, _ := strconv.Atoi(args[5])
		n.Network.Named(args[3]).MTU = mtu
	case "sed": // -i /^NAME=/d FILE
		for _, name := range args[1 : len(args)-1] {
			if name == "-e" {
				continue
			}
			name = strings.TrimSuffix(strings.TrimPrefix(name, "/^"), "=/d")
			n.Settings = slices.DeleteFunc(n.Settings, func(v ncclenv.Value) bool { return v.Name == name && v.Source == args[len(args)-1] })
		}
	case "mkdir":
		if slices.Contains(args, "/dev/shm") { // && mount -t tmpfs
			n.Host.SHM = host.SHM{Dev: n.Host.SHM.Dev, Size: 8 << 30, Free: 8 << 30}
			return
		}
		for k := range n.Host.Leftover.Log {
			n.Host.Leftover.Log[k] = host.File{Path: args[len(args)-1], Writable: true}
		}
	case "find":
		n.Host.Leftover = host.Leftover{}
	case "chmod":
		for k := range n.RDMA.Nodes {
			if slices.Contains(args, n.RDMA.Nodes[k].Path) {
				n.RDMA.Nodes[k].Error = ""
			}
		}
	case "nvidia-modprobe":
		openDevices(n)
	case "nvidia-smi":
		runSMI(n, t, args)
	case "systemctl":
		for k := range n.GPU.Devices {
			if d := &n.GPU.Devices[k]; slices.Contains(args, "nvidia-fabricmanager") && d.Fabric != "" {
				d.Fabric, d.FabricError = "completed", ""
			}
		}
	case "chronyc":
		n.Node.Offset = 0
	case "kill":
		n.Host.Leftover.Jobs = slices.DeleteFunc(n.Host.Leftover.Jobs, func(j host.Job) bool { return slices.Contains(args, fmt.Sprint(j.PID)) })
		n.GPU.Busy = slices.DeleteFunc(n.GPU.Busy, func(h preflight.Holder) bool { return slices.Contains(args, fmt.Sprint(h.PID)) })
	default:
		if target := slices.Index(args, "cp"); words[0] == "d=$(mktemp -d)" && target > 0 {
			k := slices.Index(args, "install")
			runPip(n, t, []string{"install", "--target=" + args[len(args)-1], args[k+3]})
			return
		}
		if len(args) > 2 && args[0] == "-m" && args[1] == "pip" {
			runPip(n, t, args[2:])
			return
		}
		t.Fatalf("%s: this test does not know it", line)
	}
}

// export changes the environment, and what depends on it, as an export in a
// shell does.
func export(n *preflight.Facts, name, value string) {
	setSettings(n, envprop.Assignment{Set: []envprop.Setting{{Name: name, Value: envprop.NewValue(name, value)}}})
	switch name {
	case "LD_LIBRARY_PATH":
		n.Libraries.LDPath = strings.Split(value, ":")
		if c := n.Libraries.CUDA; len(c) > 0 && c[0].Stub {
			n.Libraries.CUDA = []library.CUDA{{Path: "/usr/lib/x86_64-linux-gnu/libcuda.so.1", Version: n.Libraries.Driver}}
		}
	case "CUDA_VISIBLE_DEVICES":
		seeGPUs(n, strings.Split(value, ","))
	}
}

// seeGPUs makes GPUs visible, all for nil.
func seeGPUs(n *preflight.Facts, indices []string) {
	had := len(n.GPU.Owned) > 0
	n.GPU.Visible, n.GPU.Owned = nil, nil
	for _, d := range n.GPU.Devices {
		if indices == nil || slices.Contains(indices, fmt.Sprint(d.Index)) || slices.Contains(indices, d.UUID) {
			n.GPU.Visible = append(n.GPU.Visible, d.UUID)
		}
	}
	if had {
		n.GPU.Owned = n.GPU.Visible
	}
}

func sysctl(n *preflight.Facts, t *testing.T, name string, value int64) {
	t.Helper()
	switch name {
	case "net.core.somaxconn":
		n.Host.Sysctl.SomaxConn = value
	case "net.ipv4.neigh.default.gc_thresh3":
		n.Host.Sysctl.GCThresh3 = value
	case "net.netfilter.nf_conntrack_max":
		n.Host.Sysctl.ConntrackMax = value
	case "kernel.threads-max":
		n.Host.Limits.ThreadsMax = value
	case "kernel.pid_max":
		n.Host.Limits.PIDMax = value
	case "net.ipv4.conf.all.rp_filter":
		n.Network.RPFilter = int(value)
	case "net.ipv4.conf.all.arp_ignore":
		n.Network.ARPIgnore = int(value)
	case "net.ipv4.conf.all.arp_announce":
	default:
		t.Fatalf("sysctl %s: this test does not know it", name)
	}
}

// runSMI runs nvidia-smi -i 0,3 with an option that changes something.
func runSMI(n *preflight.Facts, t *testing.T, args []string) {
	t.Helper()
	i := slices.Index(args, "-i")
	for k := range n.GPU.Devices {
		d := &n.GPU.Devices[k]
		if i >= 0 && !slices.Contains(strings.Split(args[i+1], ","), fmt.Sprint(d.Index)) {
			continue
		}
		switch {
		case slices.Contains(args, "-mig"):
			n.GPU.Visible = slices.DeleteFunc(n.GPU.Visible, func(id string) bool { return slices.Contains(d.Instances, id) })
			if !slices.Contains(n.GPU.Visible, d.UUID) {
				n.GPU.Visible = append(n.GPU.Visible, d.UUID)
			}
			d.MIG, d.Instances = nil, nil
		case slices.Contains(args, "-c"):
			d.ComputeMode = "default"
		case slices.Contains(args, "--gpu-reset"):
			d.RemapPending, d.RetirePending, d.Uncorrected = nil, nil, nil
			d.Links = slices.Repeat([]bool{true}, len(d.Links))
		default:
			t.Fatalf("nvidia-smi %v: this test does not know it", args)
		}
	}
}

// runPip runs the node's pip. Its packages go to the site directory of the
// interpreter, not to the directories of PYTHONPATH.
func runPip(n *preflight.Facts, t *testing.T, args []string) {
	t.Helper()
	l := &n.Libraries
	site := "/opt/venv/lib/python3.11/site-packages"
	for _, p := range args[1:] {
		if to, ok := strings.CutPrefix(p, "--target="); ok {
			site = to
		}
	}
	own := func(w library.Wheel, name string) bool { return w.Site == site && w.Name == name }
	for _, p := range args[1:] {
		name, version, _ := strings.Cut(p, "==")
		switch {
		case strings.HasPrefix(p, "-"):
		case args[0] == "uninstall":
			for k := range l.Wheels { // all wheels own the same file
				if own(l.Wheels[k], name) {
					for m := range l.Wheels {
						l.Wheels[m].File = l.Wheels[m].File && l.Wheels[m].Site != site
					}
				}
			}
			l.Wheels = slices.DeleteFunc(l.Wheels, func(w library.Wheel) bool { return own(w, name) })
		case name == "torch":
			l.Torch = version
			if l.NCCLError != "" && !strings.Contains(l.NCCLError, site+wheelFolder) { // pip leaves a wheel that is installed
				l.NCCLError, l.NCCL = "", &library.NCCL{Path: site + "/nvidia/nccl/lib/libnccl.so.2", Version: "2.27.5", Code: 22705, CUDA: "12.9"}
			}
		default:
			l.Wheels = slices.DeleteFunc(l.Wheels, func(w library.Wheel) bool { return own(w, name) })
			l.Wheels = append(l.Wheels, library.Wheel{Name: name, Version: version, Site: site, File: true})
			for m := range l.Wheels {
				l.Wheels[m].File = l.Wheels[m].File || l.Wheels[m].Site == site
			}
			if l.NCCL == nil {
				l.NCCLError, l.NCCL = "", &library.NCCL{Path: site + "/nvidia/nccl/lib/libnccl.so.2"}
			}
			if strings.HasPrefix(l.NCCL.Path, site+"/") {
				l.NCCL.Version, l.NCCL.Code, l.NCCL.CUDA, l.NCCL.Error = version, codeOf(version), "12.9", ""
			}
		}
	}
}

func codeOf(version string) int {
	var a, b, c int
	_, _ = fmt.Sscanf(version, "%d.%d.%d", &a, &b, &c)
	return a*10000 + b*100 + c
}

// stepsByHand returns the steps that no line does, by rule and by the beginning
// of their text, and why.
func stepsByHand() map[string]string {
	const (
		driver  = "a driver, a machine or its GPUs are others' to change"
		cable   = "a cable, a port or a switch"
		network = "addresses, routes and firewalls are others' to change"
		build   = "another release of a library is a choice"
		user    = "only its user knows which of them is meant"
		limits  = "the limits belong to the container or the job"
	)
	return map[string]string{
		"D01 give each agent GPUs of its own":                   user,
		"D02 make more GPUs visible":                            limits,
		"D04 leave the marked nodes out of the job, and ask":    driver,
		"E06 put the file on the marked nodes":                  user,
		"D05 start the job on nodes of one kind":                user,
		"D10 ask the administrator of":                          driver,
		"E03 start gorun inside the container or on the remote": user,
		"E03 do not give":                                       user,
		"I10 ask the administrator of":                          network,
		"E05 make the file the same on all nodes":               user,
		"F01 nothing has to be done":                            user,
		"G01 ask the administrator of":                          driver,
		"G02 ask the administrator of":                          driver,
		"G03 ask the administrator of":                          driver,
		"H01 restart the machines":                              driver,
		"H03 use machines of one kind":                          user,
		"H03 start the job on machines of one kind":             user,
		"H03 install NCCL":                                      build,
		"H03 nothing has to be done":                            user,
		"H04 ask the administrator of":                          driver,
		"I01 there is no network that all nodes share":          network,
		"I05 ask the administrator of":                          cable,
		"I06 ask the administrator of":                          network,
		"I07 ask the administrator of":                          network,
		"I08 there is no network that all nodes share":          network,
		"I11 ask the administrator of":                          cable,
		"I12 ask the administrator of":                          cable,
		"I14 start gorun without --iface":                       user,
		"L01 in Kubernetes":                                     limits,
		"L01 in a container, remove":                            limits,
		"L04 ask the administrator of":                          limits,
		"L05 install NCCL":                                      build,
		"L07 ask the scheduler":                                 limits,
		"N01 ask the administrator of":                          driver,
		"N02 install the same plugin":                           build,
		"N03 ask the administrator of":                          cable,
		"N04 ask the administrator of":                          network,
		"N05 ask the administrator of":                          driver,
		"R01 give every node a --node-rank of its own":          user,
		"V05 install that torch again":                          build,
		"R03 copy the program to all nodes":                     user,
		"R03 copy the folder of the program":                    user,
		"R03 start the same command on every node":              user,
		"R03 use the same Python":                               user,
		"R04 install the same gorun":                            build,
		"R05 end the processes of the other job":                user,
		"V04 install a release of NCCL":                         build,
		"S01 end these processes, or ask":                       user,
		"T03 ask the administrator of":                          driver,
		"V01 install NCCL":                                      build,
		"V01 keep the workers of":                               build,
		"V02 ask the administrator":                             build,
		"V03 ask the administrator of":                          driver,
		"V04 install NCCL":                                      build,
	}
}
