package munge

import (
	"errors"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/term"
)

// content is what unmunge prints of a credential.
type content struct {
	user string // "root (0)"
	uid  string // "0"
	text string
}

// parse reads what unmunge prints: a line for each property, an empty line, and the
// text. The text may contain anything, so only what stands before the first empty line
// counts as properties.
func parse(out string) (content, error) {
	head, text, ok := strings.Cut(out, "\n\n")
	bad := errors.New("unmunge prints something that gorun does not understand")
	if !ok {
		return content{}, bad
	}
	c := content{text: text}
	success := false
	for line := range strings.SplitSeq(head, "\n") {
		name, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); name {
		case "STATUS":
			success = inBrackets(value) == "0"
		case "UID":
			if c.user != "" {
				return content{}, bad
			}
			c.user, c.uid = term.Truncate(term.OneLine(value), 100), inBrackets(value)
		case "LENGTH":
			if value != strconv.Itoa(len(text)) {
				return content{}, bad
			}
		}
	}
	if _, err := strconv.ParseUint(c.uid, 10, 32); err != nil || !success {
		return content{}, bad
	}
	return c, nil
}

// inBrackets returns what stands in brackets at the end of a text, or "".
func inBrackets(text string) string {
	at := strings.LastIndexByte(text, '(')
	if at < 0 || !strings.HasSuffix(text, ")") {
		return ""
	}
	return text[at+1 : len(text)-1]
}
