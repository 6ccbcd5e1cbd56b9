package envprop

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// Bounds of names and values, in bytes. The kernel takes no longer value.
const (
	maxName = 256
	maxText = 128<<10 - 1
)

// meta lists the characters that are special in a pattern of path.Match.
const meta = `*?[\`

func isPattern(s string) bool { return strings.ContainsAny(s, meta) }

// checkName returns an error for a name that cannot travel: a name that a shell could
// not export either, or a variable that gorun itself gives to workers.
func checkName(name string) error {
	if name == "" {
		return errors.New("a name is missing")
	}
	if len(name) > maxName {
		return fmt.Errorf("a name has %d bytes, at most %d are allowed", len(name), maxName)
	}
	if !isName(name) {
		return fmt.Errorf("%q is not the name of a variable: letters, digits and _ are allowed, and no digit first", name)
	}
	if reserved(name) {
		return fmt.Errorf("only gorun sets %s: leave it out", name)
	}
	return nil
}

func isName(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// checkPattern returns an error for an invalid pattern.
func checkPattern(pattern string) error {
	if len(pattern) > maxName {
		return fmt.Errorf("a pattern has %d bytes, at most %d are allowed", len(pattern), maxName)
	}
	for _, c := range []byte(pattern) {
		if c <= ' ' || c >= 0x7f || c == '=' || c == ':' || c == '/' {
			return fmt.Errorf("%q is not a pattern of names", pattern)
		}
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("%q is not a pattern: *, ? and [a-z] are known", pattern)
	}
	return nil
}

// checkValue returns an error for a value that no worker can get. The error does not
// show the value.
func checkValue(name, value string) error {
	if strings.IndexByte(value, 0) >= 0 {
		return fmt.Errorf("the value of %s has a zero byte", name)
	}
	if n := len(name) + len("=") + len(value); n > maxText {
		return fmt.Errorf("%s has %d bytes with its value, at most %d are allowed", name, n, maxText)
	}
	return nil
}

// reserved reports whether only gorun may set a variable.
func reserved(name string) bool {
	if name == secret || strings.HasPrefix(name, InternalPrefix) {
		return true
	}
	for _, v := range (Vars{}).list() {
		if v.Name == name {
			return true
		}
	}
	return false
}

// matches reports whether a pattern, or a name, matches the name of a variable.
func matches(pattern, name string) bool {
	if pattern == name {
		return true
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}
