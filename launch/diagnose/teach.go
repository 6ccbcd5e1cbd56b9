package diagnose

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/prefix"
)

// Lesson is a line that looks like an error and that no row knows, with a pattern that
// matches it in other jobs.
type Lesson struct {
	Line    int64 // of the first one, from 1
	Count   int   // lines of the same pattern
	Sample  string
	Pattern string
}

const (
	maxLessons  = 5
	maxPatterns = 1024 // different unknown lines that Teach counts
)

var (
	// errorWord matches words without which a line is hardly an error.
	errorWord = match.Lazy(`(?i)\b(?:error|errno|fail(?:ed|ure)?|fatal|abort(?:ed)?|panic|exception|can(?:not|'t)|could not|unable|refused|denied|killed|timed out|timeout|invalid|not found|no such|corrupt\w*|mismatch|dead|lost|warn(?:ing)?)\b`)
	// variable matches what differs between two jobs: addresses, paths, numbers, texts
	// in quotes.
	variable = match.Lazy(`0x[0-9a-fA-F]+|(?:\d{1,3}\.){3}\d{1,3}(?:[:<]\d+>?)?|/[\w./@%+-]{2,}|'[^']*'|"[^"]*"|[0-9a-fA-F]{12,}|\d+(?:\.\d+)*`)
)

// Teach returns the lines of a log that look like errors and that no row knows, the
// last one first. A log that ends in a failure that
// gorun explain does not know has its reason among them.
func Teach(ctx context.Context, r io.Reader) ([]Lesson, error) {
	m := sharedMatcher()
	byPattern := map[string]*Lesson{}
	in := bufio.NewReaderSize(r, blockSize)
	number := int64(1)
	for {
		p, isPiece, err := in.ReadLine()
		if err == io.EOF {
			break
		}
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return nil, err
		}
		l := number
		if !isPiece {
			number++
		}
		_, text := prefix.ReadHead(colours().ReplaceAll(p[:min(len(p), maxMatched)], nil))
		if !errorWord().Match(text) {
			continue
		}
		if row := m.rowOf(text); row != nil && row.Key != catalogue.RowUnknownWarning && !row.Kind.Has(catalogue.General) {
			continue
		}
		sample := match.PlainText(text)
		pattern := patternOf(sample)
		lesson := byPattern[pattern]
		if lesson == nil && len(byPattern) < maxPatterns {
			lesson = &Lesson{Line: l, Sample: sample, Pattern: pattern}
			byPattern[pattern] = lesson
		}
		if lesson != nil {
			lesson.Count++
		}
	}
	var all []Lesson
	for _, l := range byPattern {
		all = append(all, *l)
	}
	slices.SortFunc(all, func(a, b Lesson) int { return cmp.Compare(b.Line, a.Line) })
	return all[:min(len(all), maxLessons)], nil
}

// patternOf returns an expression that matches sample with other numbers, paths,
// addresses and quoted texts.
func patternOf(sample string) string {
	var b strings.Builder
	at := 0
	for _, place := range variable().FindAllStringIndex(sample, -1) {
		b.WriteString(regexp.QuoteMeta(sample[at:place[0]]))
		switch c := sample[place[0]]; {
		case c == '\'' || c == '"':
			b.WriteString(string(c) + `[^` + string(c) + `]*` + string(c))
		case '0' <= c && c <= '9' && !strings.ContainsAny(sample[place[0]:place[1]], ".xX:<"):
			b.WriteString(`\d+`)
		default:
			b.WriteString(`\S+`)
		}
		at = place[1]
	}
	return b.String() + regexp.QuoteMeta(sample[at:])
}

// WriteLessons writes lessons as rows of the map that a person completes: the cause, the
// fix and a line that must not match are missing.
func WriteLessons(w io.Writer, lessons []Lesson) error {
	var b strings.Builder
	if len(lessons) == 0 {
		b.WriteString("no line looks like an error that gorun explain does not know\n")
	}
	for i, l := range lessons {
		fmt.Fprintf(&b, "// line %d, %d times: %s\n", l.Line, l.Count, l.Sample)
		fmt.Fprintf(&b, "{\n\tKey: \"n%02d\", Checks: ids(\"X-NAME\"), Kind: CatchableClue,\n\tPattern: %s,\n", i+1, quoteGo(l.Pattern))
		b.WriteString("\tCause: \"TODO: what it means, half a sentence\", Fix: \"TODO: the next step\",\n\tSeen: \"TODO: the program and its release\", Source: \"TODO: the thread or the source file\",\n},\n")
		fmt.Fprintf(&b, "// testdata/rows.tsv: n%02d\t%s\tTODO: a similar line that must not match\n\n", i+1, l.Sample)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// quoteGo returns s as a Go literal, raw where that is possible.
func quoteGo(s string) string {
	if strings.ContainsRune(s, '`') {
		return fmt.Sprintf("%q", s)
	}
	return "`" + s + "`"
}
