package diagnose

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"
)

// testNow is the present of the tests.
var testNow = time.Date(2026, 11, 21, 17, 0, 0, 0, time.UTC)

// TestTeachFindsWhatNoRowKnows shows that the skeleton of a row matches its sample and
// the same line of another job, and that known and healthy lines give none.
func TestTeachFindsWhatNoRowKnows(t *testing.T) {
	const log = "step 1 loss 2.1\n" +
		"[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n" +
		"3: frobnicator: cannot map window 17 of '/dev/frob0': device lost at 10.0.0.7:4242\n" +
		"5: frobnicator: cannot map window 18 of '/dev/frob1': device lost at 10.0.0.8:4242\n"
	lessons, err := Teach(context.Background(), strings.NewReader(log))
	if err != nil || len(lessons) != 1 || lessons[0].Count != 2 || lessons[0].Line != 3 {
		t.Fatalf("got %+v, %v", lessons, err)
	}
	re, err := regexp.Compile(lessons[0].Pattern)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		lessons[0].Sample: true,
		"frobnicator: cannot map window 9 of '/dev/frob7': device lost at 192.168.7.1:1": true,
		"frobnicator: mapped window 9": false,
	} {
		if got := re.MatchString(text); got != want {
			t.Errorf("%s matches %s: %v", lessons[0].Pattern, text, got)
		}
	}
	if leastWord(lessons[0].Pattern) < 6 {
		t.Errorf("%s has no long literal", lessons[0].Pattern)
	}
	var b strings.Builder
	if err := WriteLessons(&b, lessons); err != nil || !strings.Contains(b.String(), "Pattern: `frobnicator: cannot map window") {
		t.Errorf("%v: %s", err, b.String())
	}
	if lessons, err := Teach(context.Background(), strings.NewReader("step 1\nsaved\n")); err != nil || len(lessons) != 0 {
		t.Errorf("a healthy log: %+v, %v", lessons, err)
	}
}

// TestEvidence shows that findings name the lines that speak for them.
func TestEvidence(t *testing.T) {
	found := scan(t, "job.log", "2026-11-21 16:39:58 [rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
	if len(found) != 1 || len(found[0].Evidence) != 1 {
		t.Fatalf("got %+v", found)
	}
	if e := found[0].Evidence[0]; e.Rank != 3 || e.Line != 1 || e.Time != "11-21 16:39:58" || e.Certainty != Explicit || !strings.Contains(e.Text, "2.00 GiB") {
		t.Errorf("got %+v", e)
	}
	found = scan(t, "job.log", read(t, "testdata/explain/l-hangs-in-init.log"))
	if len(found) == 0 || len(found[0].Evidence) == 0 || found[0].Evidence[0].Certainty != Derived {
		t.Errorf("what follows from absence: %+v", found)
	}
}

// TestSinceSkipsOlderLines shows that lines before the time of Since do not count.
func TestSinceSkipsOlderLines(t *testing.T) {
	const log = "2026-11-21 10:00:00 [rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB\n" +
		"2026-11-21 16:00:00 [rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
	at, err := ParseSince("2026-11-21 12:00", testNow)
	if err != nil {
		t.Fatal(err)
	}
	s := NewScanner()
	s.Since(at)
	if err := s.Read(context.Background(), LogOf("job.log"), strings.NewReader(log)); err != nil {
		t.Fatal(err)
	}
	if found := s.Findings(); len(found) != 1 || found[0].Rank != 2 {
		t.Errorf("got %+v", found)
	}
	for text, want := range map[string]string{"2h": "2026-11-21 15:00:00", "90m": "2026-11-21 15:30:00", "16:30": "2026-11-21 16:30:00", "18:00": "2026-11-20 18:00:00", "2026-11-21T12:00:05": "2026-11-21 12:00:05", "2026-11-20": "2026-11-20 00:00:00"} {
		if got, err := ParseSince(text, testNow); err != nil || got.Format("2006-01-02 15:04:05") != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "yesterday", "-2h", "25:00"} {
		if got, err := ParseSince(bad, testNow); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}
