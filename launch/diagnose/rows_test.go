package diagnose

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/wording"
)

// sample has a line that a row matches, and a similar line that the row must not match.
type sample struct{ text, counter string }

// samples returns the samples of testdata/rows.tsv by row: key, line, counter-sample.
// Most lines are made from the format strings of the programs.
func samples(tb testing.TB) map[string]sample {
	tb.Helper()
	all := map[string]sample{}
	for line := range strings.Lines(read(tb, "testdata/rows.tsv")) {
		field := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(field) != 3 {
			tb.Fatalf("%q has %d fields, want key, line and counter-sample", line, len(field))
		}
		if all[field[0]].text != "" {
			tb.Errorf("row %s has two samples", field[0])
		}
		all[field[0]] = sample{field[1], field[2]}
	}
	return all
}

func TestEachRowHasASample(t *testing.T) {
	all := samples(t)
	for _, row := range catalogue.Rows() {
		s, ok := all[row.Key]
		text := s.text
		delete(all, row.Key)
		if row.Pattern == catalogue.NoLine {
			continue
		}
		if s.counter == "" {
			t.Errorf("row %s has no counter-sample", row.Key)
		} else if got := matchRow(s.counter); got == row.Key {
			t.Errorf("row %s matches its counter-sample: %s", row.Key, s.counter)
		}
		if _, err := regexp.Compile(row.Pattern); err != nil {
			t.Errorf("row %s: %v", row.Key, err)
		}
		if !ok {
			t.Errorf("row %s has no sample", row.Key)
			continue
		}
		for _, line := range []string{text, strings.ReplaceAll(text, " : ", ": "), strings.ReplaceAll(text, " NCCL WARN ", " (ncclCommInitRankFunc) NCCL WARN "), strings.ToUpper(text), "3: [default1]:[rank3]:" + text, text + " and more"} {
			if line != text && strings.HasPrefix(row.Pattern, "^") || line == strings.ToUpper(text) && strings.Contains(row.Pattern, "(?-i:") {
				continue
			}
			if got := matchRow(line); got != row.Key {
				t.Errorf("row %s: the sample is of row %q: %s", row.Key, got, line)
			}
		}
	}
	for key := range all {
		t.Errorf("the sample of %s has no row", key)
	}
}

// matchRow returns the key of the row that matches a line, "" for none.
func matchRow(text string) string {
	if row := sharedMatcher().rowOf([]byte(text)); row != nil {
		return row.Key
	}
	return ""
}

// TestCatalogueIsComplete checks that all rows of the catalogue are in the
// map.
func TestCatalogueIsComplete(t *testing.T) {
	have := map[int]bool{}
	keys := map[string]bool{}
	for _, row := range catalogue.Rows() {
		if keys[row.Key] {
			t.Errorf("two rows %s", row.Key)
		}
		keys[row.Key] = true
		if n, err := strconv.Atoi(strings.TrimRight(row.Key, "ab")); err == nil {
			have[n] = true
		}
	}
	for n := 1; n <= 96; n++ {
		if !have[n] {
			t.Errorf("row %d is missing", n)
		}
	}
	if len(have) != 96 {
		t.Errorf("%d rows of the catalogue, not 96", len(have))
	}
}

func TestRowsAreComplete(t *testing.T) {
	id := regexp.MustCompile(`^(?:[A-Z]\d\d|X-[A-Z-]+)$`)
	for _, row := range catalogue.Rows() {
		if len(row.Checks) == 0 || row.Cause == "" || row.Fix == "" || row.Seen == "" || row.Source == "" {
			t.Errorf("row %s lacks something: %+v", row.Key, row)
		}
		for _, c := range row.Checks {
			if !id.MatchString(c) {
				t.Errorf("row %s: %q is no id", row.Key, c)
			}
		}
		if row.Kind == catalogue.NoKind {
			t.Errorf("row %s has no kind", row.Key)
		}
		if strings.HasSuffix(row.Cause, ".") || strings.HasSuffix(row.Fix, ".") {
			t.Errorf("row %s ends with a full stop", row.Key)
		}
		// Without a long literal every line of a log would need an expression.
		if row.Pattern != catalogue.NoLine && leastWord(row.Pattern) < 6 {
			t.Errorf("row %s: only %q must be in a line", row.Key, match.Literals(row.Pattern))
		}
	}
	if n := len(sharedMatcher().rows) + len(sharedMatcher().jobLines); n > 64*len(entries{}) {
		t.Errorf("%d entries are too many", n)
	}
}

// TestHealthyLinesMatchNoRow checks lines of jobs that work.
func TestHealthyLinesMatchNoRow(t *testing.T) {
	for _, line := range []string{
		"step 12 loss 2.31 error 0 failed 0 timeouts 0",
		"epoch 1 errors: 0, retries: 0, HTTP 500: 0",
		"INFO:root:GET /health 500",
		"eval: word error rate 0.12",
		"node1:4242:4250 [0] NCCL INFO [Service thread] Connection closed by localRank 0",
		"node1:4242:4250 [0] NCCL INFO NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open shared object file: No such file or directory",
		"node1:4242:4250 [0] NCCL INFO init.cc:1358 -> 3",
		"node1:4242:4250 [0] NCCL INFO RAS client listening socket at ::1<28028>",
		"UserWarning: CUDA initialization: memory is low",
		"the model has 12 ranks and no errors",
	} {
		if got := matchRow(line); got != "" {
			t.Errorf("row %s: %s", got, line)
		}
	}
}

// TestJobLinesHaveWords shows that the finder finds the words of each line of the job.
func TestJobLinesHaveWords(t *testing.T) {
	for i, l := range jobLines() {
		if words := match.Literals(l.pattern); leastWord(l.pattern) < match.Gram {
			t.Errorf("line %d of the job: a word of %q has less than %d bytes", i, words, match.Gram)
		}
	}
}

// TestWordingsHaveWords shows that the finder finds the words of each expression by
// which lines are weighed.
func TestWordingsHaveWords(t *testing.T) {
	for w, patterns := range wording.Wordings() {
		for _, pattern := range patterns {
			if leastWord(pattern) < match.Gram {
				t.Errorf("wording %d: only %q must be in a line: %s", w, match.Literals(pattern), pattern)
			}
		}
	}
}

// leastWord returns the length of the shortest literal of a pattern, 0 if it has none.
func leastWord(pattern string) int {
	n := 0
	for i, word := range match.Literals(pattern) {
		if i == 0 || len(word) < n {
			n = len(word)
		}
	}
	return n
}
