package program

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// placeholder matches what Python's string.Template replaces: $$, $name, ${name}.
var placeholder = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\$(?:\$|[_a-zA-Z][_a-zA-Z0-9]*|\{[_a-zA-Z][_a-zA-Z0-9]*\})`)
})

// Substitute replaces $local_rank and ${local_rank} in a program's argument, as torchrun
// does.
func Substitute(arg string, localRank int) string {
	if !strings.Contains(arg, "$") {
		return arg
	}
	return Expand(arg, map[string]string{"local_rank": strconv.Itoa(localRank)})
}

// Expand replaces $name and ${name} by the name's value, and $$ by $. All other text
// stays, as with safe_substitute of Python's string.Template.
func Expand(text string, values map[string]string) string {
	return placeholder().ReplaceAllStringFunc(text, func(found string) string {
		if found == "$$" {
			return "$"
		}
		if value, ok := values[strings.Trim(found, "${}")]; ok {
			return value
		}
		return found
	})
}
