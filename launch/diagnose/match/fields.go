package match

import (
	"bytes"
	"regexp"
	"strconv"
)

// Fields holds the texts that the named groups of an expression match in a line. Names
// of one meaning differ in a digit at the end: host, host2.
type Fields struct {
	Start int // of the match
	by    map[string][]byte
}

// FindFields returns the fields of the leftmost match of re in text, nil if there is
// none.
func FindFields(re *regexp.Regexp, text []byte) *Fields {
	at := re.FindSubmatchIndex(text)
	if at == nil {
		return nil
	}
	f := &Fields{at[0], map[string][]byte{}}
	for i, name := range re.SubexpNames() {
		if name != "" && at[2*i] >= 0 {
			f.by[name] = bytes.Trim(text[at[2*i]:at[2*i+1]], `"'(),;`)
		}
	}
	return f
}

// groups returns the texts of all groups of a name that matched.
func (f *Fields) groups(name string) [][]byte {
	var all [][]byte
	for _, digit := range []string{"", "2", "3", "4", "5"} {
		if p, ok := f.by[name+digit]; ok {
			all = append(all, p)
		}
	}
	return all
}

// Has reports whether a group of a name matched, even an empty text.
func (f *Fields) Has(name string) bool { return f.groups(name) != nil }

// Text returns the first text of the groups of a name, "" if there is none.
func (f *Fields) Text(name string) string {
	for _, p := range f.groups(name) {
		if len(p) > 0 {
			return PlainText(p)
		}
	}
	return ""
}

// Numbers returns the numbers of all groups of a name.
func (f *Fields) Numbers(name string) []int {
	var all []int
	for _, p := range f.groups(name) {
		if n, err := strconv.Atoi(string(p)); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// Number returns the first number of the groups of a name, -1 if there is none.
func (f *Fields) Number(name string) int {
	if all := f.Numbers(name); all != nil {
		return all[0]
	}
	return -1
}
