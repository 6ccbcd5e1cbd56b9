package caller

import (
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// here returns the line of its caller as Find writes it.
func here() string {
	_, _, line, _ := runtime.Caller(1)
	return "caller/caller_test.go:" + strconv.Itoa(line)
}

//go:noinline
func through(t *Table, n int) Place {
	if n == 0 {
		return t.Find()
	}
	p := through(t, n-1)
	return p
}

func TestFindNamesTheLine(t *testing.T) {
	asked := 0
	table := &Table{Number: func(place string) uint16 { asked++; return uint16(len(place) + asked) }}
	var numbers [2]uint16
	for i := range 3 { // found, then remembered
		p, want := table.Find(), here()
		if p.Text != want {
			t.Errorf("found %q, want %q", p.Text, want)
		}
		q, want := table.Find(), here()
		if q.Text != want {
			t.Errorf("found %q, want %q", q.Text, want)
		}
		if i == 0 {
			numbers = [2]uint16{p.Number, q.Number}
		}
		if numbers != [2]uint16{p.Number, q.Number} || p.Number == 0 || p.Number == q.Number || asked != 2 {
			t.Errorf("numbers %d, %d after %v; asked %d times", p.Number, q.Number, numbers, asked)
		}
	}
}

func TestOutside(t *testing.T) {
	pcs := make([]uintptr, 20)
	var text string
	sync.OnceFunc(func() { text = outside(pcs[:runtime.Callers(1, pcs)]) })()
	if !strings.HasPrefix(text, "caller/caller_test.go:") {
		t.Errorf("%q", text)
	}
	if got := outside(nil); got != "" {
		t.Errorf("no frames: %q", got)
	}
}

// TestFindInEachGoroutine checks stacks that end early, move and grow.
func TestFindInEachGoroutine(t *testing.T) {
	table := &Table{}
	var wg sync.WaitGroup
	for n := range 40 {
		wg.Go(func() {
			for range 100 {
				if p := through(table, n*n); !strings.HasPrefix(p.Text, "caller/caller_test.go:") {
					t.Errorf("%+v", p)
					return
				}
			}
		})
	}
	direct := make(chan Place)
	go func() { direct <- table.Find() }()
	if p := <-direct; !strings.HasPrefix(p.Text, "caller/caller_test.go:") {
		t.Errorf("%+v", p)
	}
	wg.Wait()
}

// TestFindInAFullTable checks that a stack takes the place of another one.
func TestFindInAFullTable(t *testing.T) {
	asked := 0
	table := &Table{Number: func(string) uint16 { asked++; return uint16(asked) }}
	for i := range table.known {
		table.known[i].Store(&known{stack: stack{1}})
	}
	for range 3 {
		if p := table.Find(); p.Text == "" || p.Number != 1 {
			t.Errorf("found %+v", p)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	table := &Table{}
	for b.Loop() {
		table.Find()
	}
}
