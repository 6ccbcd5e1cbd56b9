package diagnose

import (
	"slices"
	"strings"
	"sync"
)

// matcher finds the rows and the job lines that match a line.
type matcher struct {
	finder   *finder
	rows     []*compiledRow // the finder's entries from 0 on, in the order of the map
	byKey    map[string]*compiledRow
	jobLines []jobLine // the entries after those of the rows
	general  entries   // the general rows
	wordings *wordingMatcher
}

// jobLine is a line that says something about the job that findings need.
type jobLine struct {
	words []string
	read  func(*Scanner, *line)
}

// entries is a set of the finder's entries.
type entries [4]uint64

func (e *entries) add(i int)      { e[i>>6] |= 1 << (i & 63) }
func (e *entries) has(i int) bool { return e[i>>6]>>(i&63)&1 != 0 }

// without returns the entries of e that o has not.
func (e entries) without(o entries) entries {
	for i := range e {
		e[i] &^= o[i]
	}
	return e
}

// sharedMatcher returns the matcher of all Scanners. The first call makes it, which
// takes milliseconds.
var sharedMatcher = sync.OnceValue(newMatcher)

func newMatcher() *matcher {
	m := &matcher{wordings: newWordingMatcher(), byKey: map[string]*compiledRow{}}
	var words [][]string
	for _, row := range Rows() {
		c := &compiledRow{Row: row}
		m.byKey[row.Key] = c
		if row.Pattern != noLine {
			c.re = lazyRegexp("(?i)" + row.Pattern)
			if row.Kind.isGeneral() {
				m.general.add(len(m.rows))
			}
			m.rows = append(m.rows, c)
			words = append(words, literals(row.Pattern))
		}
	}
	m.jobLines = jobLines()
	for _, l := range m.jobLines {
		words = append(words, l.words)
	}
	m.finder = newFinder(words)
	return m
}

// match returns the first row of words that matches text. The general rows come last.
func (m *matcher) match(words *entries, text []byte) (*compiledRow, []int) {
	for i, row := range m.rows {
		if words.has(i) {
			if at := row.re().FindSubmatchIndex(text); at != nil {
				if row.Kind.isGeneral() && m.wordings.isUnloud(text) {
					return nil, nil
				}
				return row, at
			}
		}
	}
	return nil, nil
}

// group returns the match of the named group, "" if it has none.
func (c *compiledRow) group(name string, text []byte, at []int) string {
	if i := slices.Index(c.re().SubexpNames(), name); i > 0 && at[2*i] >= 0 {
		return strings.Trim(string(text[at[2*i]:at[2*i+1]]), `"'(),;`)
	}
	return ""
}
