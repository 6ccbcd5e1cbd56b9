package diagnose

import (
	"regexp"
	"sync"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/wording"
)

// matcher finds the rows and the job lines that match a line.
type matcher struct {
	finder   *match.Finder
	rows     []*compiledRow // the finder's entries from 0 on, in the order of the map
	byKey    map[string]*compiledRow
	jobLines []jobLine // the entries after those of the rows
	general  entries   // the general rows
	// repeatable are the entries whose lines may be of a flood.
	repeatable entries
	wordings   *wording.Matcher
	topics     *topicMatcher
	// parts are the alternatives of the general rows, which are many and broad.
	parts      []part
	partFinder *match.Finder
}

// part is one alternative of the pattern of a row.
type part struct {
	row *compiledRow
	re  func() *regexp.Regexp
}

// jobLine is a line that says something about the job that findings need.
type jobLine struct {
	pattern   string
	re        func() *regexp.Regexp
	read      func(*Scanner, *line, *match.Fields) // nil: another part of the scanner reads it
	mayRepeat bool                                 // lines of a flood that match say nothing new
}

// entries is a set of the finder's entries.
type entries [8]uint64

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
	m := &matcher{wordings: wording.NewMatcher(), topics: newTopicMatcher(), byKey: map[string]*compiledRow{}}
	var words, partWords [][]string
	for _, row := range catalogue.Rows() {
		c := &compiledRow{Row: row}
		m.byKey[row.Key] = c
		if row.Pattern != catalogue.NoLine {
			c.re = match.Lazy("(?i)" + row.Pattern)
			if row.Kind.Has(catalogue.General) {
				m.general.add(len(m.rows))
				for _, pattern := range match.Alternatives("(?i)" + row.Pattern) {
					partWords = append(partWords, match.Literals(pattern))
					m.parts = append(m.parts, part{c, match.Lazy(pattern)})
				}
			}
			m.rows = append(m.rows, c)
			words = append(words, match.Literals(row.Pattern))
		}
	}
	m.jobLines = jobLines()
	for i, l := range m.jobLines {
		m.jobLines[i].re = match.Lazy(l.pattern)
		words = append(words, match.Literals(l.pattern))
	}
	m.finder = match.NewFinder(words)
	m.partFinder = match.NewFinder(partWords)
	m.repeatable = m.mayRepeat()
	return m
}

// match returns the first row of words that matches text. The general rows come last.
func (m *matcher) match(words *entries, text []byte) (*compiledRow, *match.Fields) {
	isLoud := false
	for i, row := range m.rows {
		switch {
		case !words.has(i):
		case row.Kind.Has(catalogue.General):
			isLoud = true
		default:
			if f := match.FindFields(row.re(), text); f != nil {
				return row, f
			}
		}
	}
	if !isLoud {
		return nil, nil
	}
	row, f := m.matchGeneral(text)
	if row == nil || m.wordings.IsNoError(text) {
		return nil, nil
	}
	return row, f
}

// rowOf returns the row that matches a text, nil if there is none.
func (m *matcher) rowOf(text []byte) *compiledRow {
	var words entries
	m.finder.All(text, func(e, _ int) { words.add(e) })
	row, _ := m.match(&words, text)
	return row
}

// matchGeneral returns the first general row that matches text, and where its leftmost
// match starts.
func (m *matcher) matchGeneral(text []byte) (row *compiledRow, f *match.Fields) {
	var may entries
	m.partFinder.All(text, func(i, _ int) { may.add(i) })
	for i, p := range m.parts {
		if row != nil && p.row != row {
			break
		}
		if may.has(i) {
			if found := p.re().FindIndex(text); found != nil && (f == nil || found[0] < f.Start) {
				row, f = p.row, &match.Fields{Start: found[0]}
			}
		}
	}
	return row, f
}

// compiledRow is a row with its expression, which is compiled when a line may match.
type compiledRow struct {
	catalogue.Row
	re func() *regexp.Regexp
}
