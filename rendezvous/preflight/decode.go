package preflight

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"

	"github.com/gorun/gorun/internal/term"
)

// These are the bounds of facts in JSON. Encode stays within them, and Decode
// refuses what exceeds them.
const (
	MaxSize   = 256 << 10 // bytes of one node's facts
	maxList   = 1024      // entries of a list
	maxString = 16 << 10  // bytes of a string
	maxWorker = 1 << 16   // workers of a node
)

// Encode writes the facts as Decode accepts them. A character that cannot be
// printed becomes "?". Facts that are too large lose the ends of their lists
// and strings, and a line in Unknown says so.
func Encode(f Facts) ([]byte, error) {
	b, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("cannot write the facts of this node: %w", err)
	}
	if len(b) <= MaxSize && bounded(reflect.ValueOf(f)) == nil {
		return b, nil
	}
	for list, text := maxList, maxString; ; list, text = list/4, text/4 {
		var copied Facts // the caller's facts stay as they are
		if err := json.Unmarshal(b, &copied); err != nil {
			return nil, fmt.Errorf("cannot write the facts of this node: %w", err)
		}
		t := trimmer{list: list, text: text}
		t.walk(reflect.ValueOf(&copied).Elem())
		if t.cut {
			why := fmt.Sprintf("there is more than fits: lists are cut to %d entries, texts to %d bytes", list, text)
			copied.Unknown = append(copied.Unknown[:min(len(copied.Unknown), list-1)], Unknown{Source: "facts", Why: why})
		}
		out, err := json.Marshal(copied)
		if err != nil || len(out) <= MaxSize {
			return out, err
		}
		if list < 8 {
			return nil, fmt.Errorf("cannot write the facts of this node: %d bytes are left where %d are allowed", len(out), MaxSize)
		}
	}
}

// trimmer brings a value within bounds, in place.
type trimmer struct {
	list, text int
	cut        bool // something was cut
}

func (t *trimmer) walk(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		s := v.String()
		t.cut = t.cut || len(s) > t.text
		v.SetString(Clean(s, t.text))
	case reflect.Slice:
		if v.Len() > t.list {
			t.cut = true
			v.SetLen(t.list)
		}
		for i := range v.Len() {
			t.walk(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			t.walk(v.Field(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			t.walk(v.Elem())
		}
	}
}

// Decode reads the facts of a node from the network or a file. The facts that
// it returns are within the bounds above and contain no control character.
func Decode(b []byte) (Facts, error) {
	if len(b) > MaxSize {
		return Facts{}, fmt.Errorf("facts of %d bytes: at most %d are read", len(b), MaxSize)
	}
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		var other *json.UnmarshalTypeError
		if errors.As(err, &other) && other.Field == "" {
			return Facts{}, fmt.Errorf("it holds a JSON %s, not the facts of a node", jsonKind(other.Value))
		}
		return Facts{}, fmt.Errorf("facts that are not JSON: %w", err)
	}
	if head.Format != Format {
		return Facts{}, fmt.Errorf("facts of format %d: this gorun reads format %d; use the same gorun on every node", head.Format, Format)
	}
	var f Facts
	if err := json.Unmarshal(b, &f); err != nil {
		return Facts{}, fmt.Errorf("facts that are not as gorun writes them: %w", err)
	}
	if err := bounded(reflect.ValueOf(f)); err != nil {
		return Facts{}, fmt.Errorf("facts%w", err)
	}
	return f, validate(&f)
}

// jsonKind names a kind of JSON value in a message.
func jsonKind(value string) string {
	if value == "array" {
		return "list"
	}
	word, _, _ := strings.Cut(value, " ") // "number 7"
	return word
}

// bounded returns an error for the first string or list that is out of bounds.
func bounded(v reflect.Value) error {
	switch v.Kind() {
	case reflect.String:
		switch s := v.String(); {
		case len(s) > maxString:
			return fmt.Errorf(": a text of %d bytes, at most %d are read", len(s), maxString)
		case !term.IsPrintable(s):
			return errors.New(": a text with control characters")
		}
	case reflect.Slice:
		if v.Len() > maxList {
			return fmt.Errorf(": a list of %d entries, at most %d are read", v.Len(), maxList)
		}
		for i := range v.Len() {
			if err := bounded(v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if err := bounded(v.Field(i)); err != nil {
				return fmt.Errorf(".%s%w", v.Type().Field(i).Name, err)
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return bounded(v.Elem())
		}
	}
	return nil
}

// validate refuses impossible numbers and addresses. If an address cannot be
// read, a rule would treat the node as one without it. Other nodes connect to
// the addresses in Listeners.
func validate(f *Facts) error {
	if f.Node.Workers < 0 || f.Node.Workers > maxWorker {
		return fmt.Errorf("facts of a node with %d workers", f.Node.Workers)
	}
	for _, a := range f.Network.Addresses {
		ip, err := netip.ParseAddr(a.IP)
		if err != nil {
			return fmt.Errorf("facts with an interface %s at %q, which is not an IP address", clip(a.Label), clip(a.IP))
		}
		if a.Bits < 0 || a.Bits > ip.BitLen() {
			return fmt.Errorf("facts with an interface %s at %s/%d", clip(a.Label), clip(a.IP), a.Bits)
		}
	}
	for _, h := range f.Network.Hostname {
		if _, err := netip.ParseAddr(h); err != nil {
			return fmt.Errorf("facts with a host name at %q, which is not an IP address", clip(h))
		}
	}
	for _, l := range f.Listeners {
		if _, err := netip.ParseAddr(l.Addr); err != nil {
			return fmt.Errorf("facts with a listener at %q, which is not an IP address", clip(l.Addr))
		}
		for _, port := range append([]int{l.Port}, l.Ports...) {
			if port <= 0 || port > 65535 {
				return fmt.Errorf("facts with a listener at port %d", port)
			}
		}
	}
	return nil
}

// clip cuts a text of another node for a message.
func clip(s string) string { return Clean(s, 80) }
