package envprop

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxEnvFile bounds an env file, in bytes.
const MaxEnvFile = 1 << 20

// maxOverrides bounds the requests of one node, and the lines of an env file.
const maxOverrides = 1024

// envLine is a variable of an env file.
type envLine struct {
	name, value string
	line        int // where it begins, from 1
}

// parseEnvFile reads dotenv syntax:
//
//	# a comment
//	export NAME=value      # "export" is optional
//	NAME = value           # blanks around = and the value are ignored
//	NAME='unchanged'       # one line
//	NAME="with \n \r \t \" \\ \$, and
//	further lines"
//
// A comment behind an unquoted value needs a blank before its #. parseEnvFile expands
// nothing. Where a shell would expand (a $ or ` outside of single quotes), it returns an
// error, so that a file means the same here and elsewhere. For the same reason a name
// that comes twice is an error. Errors begin with the file and the line and show no value.
func parseEnvFile(file string, text []byte) ([]envLine, error) {
	if len(text) > MaxEnvFile {
		return nil, fmt.Errorf("%s: it has more than %d bytes", file, MaxEnvFile)
	}
	if !utf8.Valid(text) {
		bad := 1 + bytes.Count(text[:invalid(text)], []byte("\n"))
		return nil, fmt.Errorf("%s:%d: not UTF-8", file, bad)
	}
	p := envParser{rest: strings.TrimPrefix(string(text), "\ufeff"), line: 1}
	var lines []envLine
	first := map[string]int{}
	for p.rest != "" {
		begin := p.line
		l, ok, err := p.next()
		if err == nil && ok && first[l.name] != 0 {
			err = fmt.Errorf("line %[2]d sets %[1]s already", l.name, first[l.name])
		}
		if err == nil && len(lines) == maxOverrides {
			err = fmt.Errorf("more than %d variables", maxOverrides)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, begin, err)
		}
		if ok {
			l.line, first[l.name] = begin, begin
			lines = append(lines, l)
		}
	}
	return lines, nil
}

// invalid returns the offset of the first byte that is not UTF-8.
func invalid(text []byte) int {
	at := 0
	for at < len(text) {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n <= 1 {
			break
		}
		at += n
	}
	return at
}

// envParser reads an env file. It is always at the beginning of a line.
type envParser struct {
	rest string
	line int // number of the next line
}

// nextLine removes the next line, without its end.
func (p *envParser) nextLine() string {
	text, rest, _ := strings.Cut(p.rest, "\n")
	p.rest = rest
	p.line++
	return strings.TrimSuffix(text, "\r")
}

// next reads a variable. ok is false for a line without a variable.
func (p *envParser) next() (l envLine, ok bool, err error) {
	text := strings.TrimLeft(p.nextLine(), blanks)
	if text == "" || text[0] == '#' {
		return l, false, nil
	}
	if rest, ok := strings.CutPrefix(text, "export"); ok && rest != "" && strings.ContainsRune(blanks, rune(rest[0])) {
		text = strings.TrimLeft(rest, blanks)
	}
	name, value, assigned := strings.Cut(text, "=")
	if !assigned {
		return l, false, errors.New("no '=' in this line: NAME=value is expected")
	}
	l.name = strings.TrimRight(name, blanks)
	if !isName(l.name) { // the error does not show it, because it may be a line of a key
		return l, false, errors.New("what stands before '=' is not the name of a variable")
	}
	if err := checkName(l.name); err != nil {
		return l, false, err
	}
	value = strings.TrimLeft(value, blanks)
	switch {
	case strings.HasPrefix(value, "'"):
		l.value, err = single(value[1:])
	case strings.HasPrefix(value, `"`):
		l.value, err = p.double(value[1:])
	default:
		l.value, err = plain(value)
	}
	if err == nil {
		err = checkValue(l.name, l.value)
	}
	return l, err == nil, err
}

const blanks = " \t"

// errExpands does not show the place, because it may be within a password.
var errExpands = errors.New("a shell would expand the $ or ` in this value, but gorun expands nothing: write single quotes around the value to keep it unchanged")

func plain(text string) (string, error) {
	for i := range len(text) {
		if text[i] == '#' && (i == 0 || strings.ContainsRune(blanks, rune(text[i-1]))) {
			text = text[:i]
			break
		}
	}
	text = strings.TrimRight(text, blanks)
	switch {
	case strings.ContainsAny(text, "$`"):
		return "", errExpands
	case strings.ContainsAny(text, `"'`):
		return "", errors.New("a quote within an unquoted value: write quotes around the whole value")
	}
	return text, nil
}

func single(text string) (string, error) {
	value, after, ok := strings.Cut(text, "'")
	if !ok {
		return "", errors.New("no single quote ends the value in its line: only double quotes hold several lines")
	}
	return value, only(after)
}

func (p *envParser) double(text string) (string, error) {
	var value strings.Builder
	for {
		for i := 0; i < len(text); i++ {
			switch c := text[i]; c {
			case '"':
				return value.String(), only(text[i+1:])
			case '$', '`':
				return "", errExpands
			case '\\':
				if i++; i == len(text) {
					return "", errors.New(`a line ends with \: a value goes on in the next line without one`)
				}
				plain := strings.IndexByte("nrt\"\\$`", text[i])
				if plain < 0 {
					return "", errors.New("unknown escape in double quotes: \\n, \\r, \\t, \\\", \\\\, \\$ and \\` are known")
				}
				value.WriteByte("\n\r\t\"\\$`"[plain])
			default:
				value.WriteByte(c)
			}
		}
		if p.rest == "" {
			return "", errors.New("no double quote ends the value")
		}
		value.WriteByte('\n')
		text = p.nextLine()
	}
}

// only returns an error if text follows a quoted value.
func only(after string) error {
	if after = strings.TrimLeft(after, blanks); after != "" && after[0] != '#' {
		return errors.New("text behind the closing quote")
	}
	return nil
}
