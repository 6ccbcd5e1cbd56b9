package envprop

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop/ncclenv"
)

// Options are what the user gave on one node.
type Options struct {
	X     []string  // arguments of -x
	Unset []string  // arguments of --unset
	Files []EnvFile // --env-file, in order: of a name that comes twice the later file counts
}

// EnvFile is the text of an env file, read by the caller.
type EnvFile struct {
	Name string
	Text []byte
}

// Request is what the user of one node requests, with the values that the node gives.
type Request struct {
	Overrides      []Override // sent to all nodes; of two with one weight the later counts
	LocalOverrides []Override // of env files: credentials, for this node's own workers
	Missing        []string   // names of -x NAME that have no value here: another node may give one
	Notes          []string   // for the user, one line each
}

// NewRequest reads what the user asked for on a node with this environment.
//
//	-x NAME               this node's value
//	-x NAME=value
//	-x 'NCCL_*'           this node's values of all that match, except variables that
//	                      name one machine, a rank's devices or a credential
//	-x node=0:NAME=value  for the node of a group rank
//	-x role=ps:NAME=value for the nodes of a role
//	--unset NAME          also with a pattern or a target
//
// A variable that looks like a credential leaves the node only when -x names it
// in full. Every error is about the user's input. It names the argument, or the file
// and the line.
func NewRequest(o Options, env []string) (Request, error) {
	var r Request
	fromFiles := map[string]envLine{}
	for _, f := range o.Files {
		lines, err := parseEnvFile(f.Name, f.Text)
		if err != nil {
			return Request{}, err
		}
		for _, l := range lines {
			fromFiles[l.name] = l
			override := Override{Name: l.name, Value: NewValue(l.name, l.value), Kind: FromEnvFile, Exact: true, At: fmt.Sprintf("%s:%d", shownPath(f.Name), l.line)}
			if ncclenv.Credential(l.name) {
				r.LocalOverrides = append(r.LocalOverrides, override)
				continue
			}
			r.Overrides = append(r.Overrides, override)
		}
	}
	nodeEnv := environment(env)
	named := map[string]bool{}
	for _, arg := range o.X {
		override, given, err := parseFlag(FromFlag, arg)
		if err != nil {
			return Request{}, err
		}
		named[override.Name] = true
		switch {
		case given:
			if ncclenv.Credential(override.Name) {
				r.note("%s: other users see this value in the list of processes; set it in the environment and write -x %s%s", override.At, override.To, override.Name)
			}
			r.add(override)
		case override.Exact:
			if err := r.addNodeValue(override, nodeEnv, fromFiles); err != nil {
				return Request{}, err
			}
		default:
			r.expand(override, nodeEnv)
		}
	}
	for _, arg := range o.Unset {
		override, _, err := parseFlag(FromUnset, arg)
		if err != nil {
			return Request{}, err
		}
		r.add(override)
	}
	if len(r.Overrides) > maxOverrides {
		return Request{}, fmt.Errorf("%d variables are requested with -x, --unset and --env-file, at most %d are allowed", len(r.Overrides), maxOverrides)
	}
	for _, a := range r.LocalOverrides {
		if !named[a.Name] {
			r.note("%s of %s stays on this node, as it looks like a credential: add -x %s to give it to every node", a.Name, a.At, a.Name)
		}
	}
	return r, nil
}

// LocalAssignment returns the part of the request that only this node's own workers get.
func (r Request) LocalAssignment() Assignment {
	var a Assignment
	for _, override := range r.LocalOverrides {
		a.Set = append(a.Set, Setting{override.Name, override.Value, Source{Kind: override.Kind, At: override.At}})
	}
	return a
}

func (r *Request) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// add appends a request. It adds a note if the value belongs to one machine and goes to
// others.
func (r *Request) add(a Override) {
	r.Overrides = append(r.Overrides, a)
	if v, ok := ncclenv.Governed(a.Name); ok && a.Kind == FromFlag && a.To == (Target{}) && (v.Scope == ncclenv.Never || v.Scope == ncclenv.Rank) {
		r.note("%s: every node gets this one value, though %s", a.At, v.Text)
	}
}

// addNodeValue adds the request of -x NAME, with this node's value.
func (r *Request) addNodeValue(a Override, nodeEnv map[string]string, fromFiles map[string]envLine) error {
	text, ok := nodeEnv[a.Name]
	if !ok {
		l, in := fromFiles[a.Name]
		if !in {
			r.Missing = append(r.Missing, a.Name)
			r.note("%s: not set on this node", a.At)
			return nil
		}
		text = l.value
	}
	if err := checkValue(a.Name, text); err != nil {
		return fmt.Errorf("%s: %w", a.At, err)
	}
	a.Value = NewValue(a.Name, text)
	r.add(a)
	return nil
}

// expand adds the requests of -x with a pattern.
func (r *Request) expand(a Override, nodeEnv map[string]string) {
	var unsent []string
	found := false
	for _, name := range names(nodeEnv) {
		if !matches(a.Name, name) || checkName(name) != nil || checkValue(name, nodeEnv[name]) != nil {
			continue
		}
		found = true
		v, governed := ncclenv.Governed(name)
		if ncclenv.HasCredential(name, nodeEnv[name]) || ncclenv.Credential(name) || governed && (v.Scope == ncclenv.Never || v.Scope == ncclenv.Rank) {
			unsent = append(unsent, name)
			continue
		}
		one := a
		one.Name, one.Value = name, NewValue(name, nodeEnv[name])
		r.Overrides = append(r.Overrides, one)
	}
	switch n := len(unsent); {
	case !found:
		r.note("%s: no variable of this node matches", a.At)
	case n > 8:
		r.note("%s does not send %s and %d more: to send one of them, write its full name", a.At, strings.Join(unsent[:8], ", "), n-8)
	case n > 0:
		r.note("%s does not send %s: to send one of them, write its full name", a.At, strings.Join(unsent, ", "))
	}
}

// environment returns env as a map. If a name comes twice, the later entry counts.
func environment(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, entry := range env {
		if name, value, ok := strings.Cut(entry, "="); ok {
			m[name] = value
		}
	}
	return m
}

func names[V any](m map[string]V) []string {
	list := make([]string, 0, len(m))
	for name := range m {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// Local is a node before the coordinator's decision: its environment, and what its
// user requests there.
type Local struct {
	Node    Node
	Env     []string
	Request Request
}

// Assignment returns what the node with this group rank would decide if no other
// node sent anything.
func (l Local) Assignment(rank int) Assignment {
	reports := make([]Report, rank+1)
	reports[rank] = NewReport(l.Node, l.Env, nil, l.Request)
	return Unify(reports, Policy{}).Members[rank]
}

// base returns what the node's workers have in common besides any decision.
func (l Local) base() Base { return NewBase(l.Env).Apply(l.Request.LocalAssignment()) }

// ExpectedBase returns what the node's workers will have in common, as far as this node
// decides it.
func (l Local) ExpectedBase() Base {
	if len(l.Request.Overrides) == 0 {
		return l.base()
	}
	return l.base().Apply(l.Assignment(0))
}

// ApplyDecision returns what the node's workers have in common after the coordinator's
// decision, which Assignment.Encode made. If the nodes do not trust each other, it
// leaves out the values that could run code here and that this node did not request.
// A coordinator of this version leaves them out itself.
func (l Local) ApplyDecision(decision []byte, rank int, trusted bool) (b Base, refused []Setting, err error) {
	given, err := DecodeAssignment(decision)
	if err != nil {
		return l.base(), nil, err
	}
	if !trusted {
		given, refused = given.FilterUntrusted(l.Assignment(rank))
	}
	return l.base().Apply(given), refused, nil
}

// CredentialAt returns where the user requests the first credential that travels to
// other nodes, or "" if none does.
func (r Request) CredentialAt() string {
	for _, override := range r.Overrides {
		if ncclenv.Credential(override.Name) || override.Value.HasCredential() {
			return override.At
		}
	}
	return ""
}
