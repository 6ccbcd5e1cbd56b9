package envprop

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Bounds of what nodes send each other, in bytes and entries.
const (
	MaxReport     = 1 << 20
	MaxAssignment = 2 << 20
	maxValues     = 4096
	maxSet        = 8192
	maxNote       = 1024 // bytes of an At or Rule
)

// wireValue is a value as nodes send it: in clear, and any bytes.
type wireValue struct {
	Name  string `json:"n"`
	Text  []byte `json:"v,omitempty"`
	Conf  string `json:"c,omitempty"`
	Under string `json:"u,omitempty"`
}

func (w wireValue) value() (Value, error) {
	return NewValue(w.Name, string(w.Text)), checkValue(w.Name, string(w.Text))
}

type wireReport struct {
	Format    int            `json:"format"`
	Node      Node           `json:"node"`
	Values    []wireValue    `json:"own,omitempty"`
	Overrides []wireOverride `json:"asks,omitempty"`
}

type wireOverride struct {
	wireValue
	To    Target `json:"to,omitzero"`
	Kind  Kind   `json:"kind"`
	Whole bool   `json:"whole,omitempty"`
	At    string `json:"at,omitempty"`
}

// Encode writes the report for DecodeReport. It writes credentials that -x names in
// clear, so the result is for an encrypted connection, never for a file or a terminal.
func (r Report) Encode() ([]byte, error) {
	w := wireReport{Format: r.Format, Node: r.Node}
	for _, o := range r.Values {
		w.Values = append(w.Values, wireValue{o.Name, []byte(o.Value.Reveal()), o.Conf, o.Overridden})
	}
	for _, a := range r.Overrides {
		w.Overrides = append(w.Overrides, wireOverride{wireValue{Name: a.Name, Text: []byte(a.Value.Reveal())}, a.To, a.Kind, a.Exact, a.At})
	}
	return encode(w, MaxReport, "this node's report of its environment")
}

// DecodeReport reads another node's report, which may hold any bytes. It returns an
// error for anything that Encode does not write. The error shows no value.
func DecodeReport(data []byte) (Report, error) {
	var w wireReport
	if err := decode(data, &w, MaxReport); err != nil {
		return Report{}, err
	}
	if w.Format != format {
		return Report{}, fmt.Errorf("an environment of format %d, but this gorun reads format %d: run the same gorun on every node", w.Format, format)
	}
	if len(w.Values) > maxValues || len(w.Overrides) > maxOverrides {
		return Report{}, fmt.Errorf("an environment of %d variables and %d requests, at most %d and %d are allowed", len(w.Values), len(w.Overrides), maxValues, maxOverrides)
	}
	if err := checkTexts(maxName, w.Node.Host, w.Node.Addr, w.Node.Role); err != nil {
		return Report{}, err
	}
	r := Report{Format: w.Format, Node: w.Node}
	for i, o := range w.Values {
		v, err := o.value()
		if err := cmp.Or(err, checkName(o.Name), checkTexts(maxNote, o.Conf, o.Under)); err != nil {
			return Report{}, err
		}
		if i > 0 && w.Values[i-1].Name >= o.Name {
			return Report{}, fmt.Errorf("the variables are not sorted by name: %s", o.Name)
		}
		r.Values = append(r.Values, NodeValue{o.Name, v, o.Conf, o.Under})
	}
	for _, a := range w.Overrides {
		override := Override{To: a.To, Name: a.Name, Kind: a.Kind, Exact: a.Whole, At: a.At}
		var err error
		if override.Value, err = a.value(); err != nil {
			return Report{}, err
		}
		if err := override.check(); err != nil {
			return Report{}, err
		}
		r.Overrides = append(r.Overrides, override)
	}
	return r, nil
}

// check returns an error for an override that no request can have.
func (a *Override) check() error {
	if err := cmp.Or(a.To.check(), checkTexts(maxNote, a.At)); err != nil {
		return err
	}
	switch a.Kind {
	case FromUnset:
		if a.Value.Reveal() != "" || a.Exact == isPattern(a.Name) || a.Name == "" || strings.ContainsRune(meta, rune(a.Name[0])) {
			return errors.New("an invalid request to remove a variable")
		}
		if !a.Exact {
			return checkPattern(a.Name)
		}
	case FromFlag:
	case FromEnvFile:
		if a.To != (Target{}) || !a.Exact {
			return errors.New("a line of an env file is for all nodes")
		}
	default:
		return errors.New("a request of an unknown kind")
	}
	return checkName(a.Name)
}

type wireAssignment struct {
	Format int           `json:"format"`
	Set    []wireSetting `json:"set,omitempty"`
	Unset  []Removal     `json:"unset,omitempty"`
}

type wireSetting struct {
	wireValue
	Source Source `json:"source"`
}

// Encode writes the assignment for DecodeAssignment, credentials in clear, as
// Report.Encode does.
func (a Assignment) Encode() ([]byte, error) {
	w := wireAssignment{Format: format, Unset: a.Unset}
	for _, s := range a.Set {
		w.Set = append(w.Set, wireSetting{wireValue{Name: s.Name, Text: []byte(s.Value.Reveal())}, s.Source})
	}
	return encode(w, MaxAssignment, "the environment of a node's workers")
}

// DecodeAssignment reads what another node decided, with errors as DecodeReport.
func DecodeAssignment(data []byte) (Assignment, error) {
	var w wireAssignment
	if err := decode(data, &w, MaxAssignment); err != nil {
		return Assignment{}, err
	}
	if w.Format != format || len(w.Set) > maxSet || len(w.Unset) > maxSet {
		return Assignment{}, fmt.Errorf("an environment of format %d with %d values and %d removals is not supported", w.Format, len(w.Set), len(w.Unset))
	}
	var a Assignment
	for _, s := range w.Set {
		v, err := s.value()
		if err := cmp.Or(err, checkName(s.Name), s.Source.check()); err != nil {
			return Assignment{}, err
		}
		a.Set = append(a.Set, Setting{s.Name, v, s.Source})
	}
	for _, u := range w.Unset {
		err := checkPattern(u.Name)
		if !isPattern(u.Name) {
			err = checkName(u.Name)
		}
		if err := cmp.Or(err, u.Source.check()); err != nil {
			return Assignment{}, err
		}
		a.Unset = append(a.Unset, u)
	}
	return a, nil
}

func (s Source) check() error {
	switch s.Kind {
	case FromFlag, FromUnset, FromEnvFile, FromFirst, FromGorun:
		return checkTexts(maxNote, s.Node, s.At, s.Rule)
	default:
		return errors.New("a value from an unknown source")
	}
}

// checkTexts returns an error for a text that is too long or unsafe for a terminal.
func checkTexts(most int, words ...string) error {
	for _, w := range words {
		if len(w) > most || line(w) != w {
			return fmt.Errorf("a text of the environment has more than %d bytes, or characters that cannot be printed", most)
		}
	}
	return nil
}

func encode(w any, most int, what string) ([]byte, error) {
	b, err := json.Marshal(w)
	if err == nil && len(b) > most {
		err = fmt.Errorf("%s has %d bytes, at most %d are allowed: ask for fewer variables with -x and --env-file", what, len(b), most)
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// decode reads JSON. Its error does not repeat the text, as errors of encoding/json may.
func decode(data []byte, into any, most int) error {
	if len(data) > most {
		return fmt.Errorf("an environment of %d bytes, at most %d are allowed", len(data), most)
	}
	if json.Unmarshal(data, into) != nil {
		return errors.New("an environment that is not in the form that gorun writes: run the same gorun on every node")
	}
	return nil
}
