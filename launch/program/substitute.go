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

// Substitute replaces $local_rank and ${local_rank} in a program's argument and
// turns $$ into $. All other text stays, as with safe_substitute of Python's
// string.Template, which torchrun applies to arguments.
func Substitute(arg string, localRank int) string {
	if !strings.Contains(arg, "$") {
		return arg
	}
	return placeholder().ReplaceAllStringFunc(arg, func(found string) string {
		switch found {
		case "$$":
			return "$"
		case "$local_rank", "${local_rank}":
			return strconv.Itoa(localRank)
		}
		return found
	})
}
