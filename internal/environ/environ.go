// Package environ reads environments: lists of NAME=value, as in os/exec.
//
// Invariants: of two entries of a name the later one counts, as it does for exec.
package environ

import (
	"slices"
	"strings"
)

// Lookup returns the value of a variable. ok is false if the variable is not set.
func Lookup(env []string, name string) (value string, ok bool) {
	for _, entry := range slices.Backward(env) {
		if value, ok = strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// Get returns the value of a variable, "" if the variable is not set.
func Get(env []string, name string) string {
	value, _ := Lookup(env, name)
	return value
}
