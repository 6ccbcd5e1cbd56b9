package board

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/gorun/gorun/worker/contract"
)

func create(t testing.TB, o Options) *Board {
	t.Helper()
	b, err := Create(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// again maps the board a second time, as another process does.
func again(t testing.TB, b *Board) *Board {
	t.Helper()
	f, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(int(b.File().Fd())), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	other, err := Map(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	return other
}

func TestLayout(t *testing.T) {
	if n := unsafe.Sizeof(record{}); n != 64 {
		t.Errorf("a record has %d bytes", n)
	}
	for name, n := range map[string]uintptr{
		"abort word": unsafe.Offsetof(header{}.abort), "sleeping": unsafe.Offsetof(page{}.sleeping),
		"lines": unsafe.Offsetof(page{}.lines), "line": unsafe.Sizeof(line{}), "calls": unsafe.Offsetof(line{}.calls),
	} {
		if n%64 != 0 {
			t.Errorf("%s: %d is no multiple of a cache line", name, n)
		}
	}
	if headerSize%pageSize != 0 || rankSize%pageSize != 0 {
		t.Errorf("sizes %d, %d", headerSize, rankSize)
	}
}

func TestTwoMappingsAreOneBoard(t *testing.T) {
	a := create(t, Options{Ranks: 3, Memory: 5000, Spin: true})
	b := again(t, a)
	if b.Ranks() != 3 || !b.Spin() || len(b.Memory()) != 2*pageSize || len(a.Memory()) != 2*pageSize {
		t.Fatalf("%d ranks, spin %v, %d bytes", b.Ranks(), b.Spin(), len(b.Memory()))
	}
	if a.Memory()[4999] != 0 {
		t.Error("the memory is not zero")
	}
	a.Memory()[4999] = 7
	if b.Memory()[4999] != 7 {
		t.Error("the memory is not shared")
	}
	if err := a.File().Truncate(0); err == nil {
		t.Error("the file could be cut off")
	}
}

func TestMapRefusesWhatIsNoBoard(t *testing.T) {
	good := create(t, Options{Ranks: 2})
	corrupt := func(offset int, v uint32) []byte {
		data := append([]byte(nil), good.data...)
		binary.LittleEndian.PutUint32(data[offset:], v)
		return data
	}
	for name, data := range map[string][]byte{
		"empty": {}, "short": make([]byte, headerSize-1), "zeros": make([]byte, headerSize),
		"version": corrupt(8, 99), "no ranks": corrupt(12, 0), "ranks": corrupt(12, 3), "many ranks": corrupt(12, 1<<31),
		"size": corrupt(16, 1), "magic": corrupt(0, 1), "cut": corrupt(0, 0)[:headerSize+rankSize],
	} {
		f, err := newMemfd("test", len(data))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(data, 0); err != nil {
			t.Fatal(err)
		}
		if b, err := Map(f); err == nil {
			b.Close()
			t.Errorf("%s: mapped", name)
		}
	}
	path := filepath.Join(t.TempDir(), "board")
	if err := os.WriteFile(path, good.data, 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
		if _, err := Map(f); err == nil {
			t.Error("a file that can be cut off was mapped")
		}
	}
	if _, err := Create(Options{Ranks: 0}); err == nil {
		t.Error("a board without ranks")
	}
	if r, _, err := os.Pipe(); err == nil {
		if _, err := Map(r); err == nil {
			t.Error("a pipe was mapped")
		}
	}
}

// TestRanksCountTogether passes a counter round 4 goroutines, as ranks do in a barrier.
func TestRanksCountTogether(t *testing.T) {
	for _, spin := range []bool{false, true} {
		const ranks, rounds = 4, 2000
		b := create(t, Options{Ranks: ranks, Memory: ranks * 64, Spin: spin})
		words := make([]*Word, ranks)
		for i := range words {
			words[i] = WordAt(b.Memory()[i*64:])
			words[i].Publish(1<<32 - rounds/2) // the counter overflows on the way
		}
		var wg sync.WaitGroup
		for rank := range ranks {
			wg.Go(func() {
				w := b.Waiter(rank, nil, nil)
				at := words[rank].Load()
				for range rounds {
					at++
					words[rank].Publish(at)
					for _, other := range words {
						if err := w.Await(t.Context(), other, at); err != nil {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		wg.Wait()
	}
}

// TestEachEndOfAWait checks what a wait returns that nobody fulfils.
func TestEachEndOfAWait(t *testing.T) {
	reason := errors.New("the user has no patience")
	for name, tc := range map[string]struct {
		end  func(b *Board, stop *Word, cancel context.CancelCauseFunc)
		want error
	}{
		"abort":   {func(b *Board, _ *Word, _ context.CancelCauseFunc) { b.Abort(contract.Cause{Text: "x"}) }, ErrAborted},
		"stop":    {func(b *Board, stop *Word, _ context.CancelCauseFunc) { b.Stop(stop) }, ErrStopped},
		"context": {func(_ *Board, _ *Word, cancel context.CancelCauseFunc) { cancel(reason) }, reason},
	} {
		for _, spin := range []bool{false, true} {
			b := create(t, Options{Ranks: 1, Memory: 64, Spin: spin})
			stop, word := WordAt(b.Memory()[8:]), WordAt(b.Memory())
			ctx, cancel := context.WithCancelCause(t.Context())
			got := make(chan error, 1)
			go func() { got <- b.Waiter(0, stop, nil).Await(ctx, word, 1) }()
			waitFor(t, "the rank does not sleep", func() bool { return word.sleepers.Load() > 0 })
			tc.end(b, stop, cancel)
			select {
			case err := <-got:
				if err != tc.want {
					t.Errorf("%s: %v", name, err)
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("%s: the wait does not end", name)
			}
			cancel(nil)
			if n := b.wakeAll(); n != 0 || word.sleepers.Load() != 0 {
				t.Errorf("%s: %d sleepers are left", name, n)
			}
		}
	}
}

func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func TestCauseOfAnAbort(t *testing.T) {
	b := create(t, Options{Ranks: 1})
	if b.Aborted() || b.Cause() != nil {
		t.Fatal("aborted from the start")
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := contract.Cause{Kind: "exit", Host: "n1", Rank: 3, ExitCode: 7, Text: "rank 3 exited with code 7", Time: at}
	b.Abort(want)
	b.Abort(contract.Cause{Text: "too late"})
	if got := again(t, b).Cause(); got == nil || *got != want {
		t.Errorf("cause %+v", got)
	}
	long := create(t, Options{Ranks: 1})
	long.Abort(contract.Cause{Rank: 2, Text: strings.Repeat("é\x01", 10_000), Host: strings.Repeat("h", 10_000)})
	if c := long.Cause(); c == nil || c.Rank != 2 || len(c.Text) == 0 || len(c.Text) > maxCause {
		t.Errorf("cause %.100v", c)
	}
	odd := create(t, Options{Ranks: 1})
	odd.Abort(contract.Cause{Rank: 2, Time: at.AddDate(1<<20, 0, 0)})
	if c := odd.Cause(); c == nil || c.Rank != 2 {
		t.Errorf("cause %+v", c)
	}
}

// TestCauseOfABrokenBoard checks an abort whose cause is missing or no JSON.
func TestCauseOfABrokenBoard(t *testing.T) {
	for _, write := range []func(h *header){
		func(h *header) { h.abort.Store(abortWriting) },
		func(h *header) { h.causeLen.Store(1 << 30); h.abort.Store(abortDone) },
		func(h *header) { copy(h.cause[:], `{"rank":`); h.causeLen.Store(8); h.abort.Store(77) },
	} {
		b := create(t, Options{Ranks: 1})
		write(b.header())
		if !b.Aborted() || b.Cause() != nil {
			t.Errorf("aborted %v, cause %+v", b.Aborted(), b.Cause())
		}
	}
}

func TestPositions(t *testing.T) {
	b := create(t, Options{Ranks: 2})
	reader := again(t, b)
	if got := reader.Member(1); got.Rank != -1 {
		t.Errorf("member %+v", got)
	}
	b.Join(1, 5, 4711)
	b.SetStep(1, 99)
	if got := reader.Member(1); got != (Member{5, 4711, 99}) {
		t.Errorf("member %+v", got)
	}
	line := b.OpenLine(1, Comm{ID: 12, Rank: 3, Size: 4})
	site := b.Site(1, "train/main.go:88")
	if site == 0 || b.Site(1, "train/main.go:88") != site || b.Site(1, "") != 0 {
		t.Errorf("site %d", site)
	}
	call := Call{Kind: 4, Type: 2, Op: 1, Waits: WaitsForSender, Site: site, Peer: -1, Tag: -7, Count: 1000}
	for i := range 100 {
		call.Seq = uint64(i + 1)
		line.Enter(call)
		if i < 99 {
			line.Leave()
		}
	}
	all := reader.Positions(1, 10)
	if len(all) != 1 || len(reader.Positions(0, 10)) != 0 || reader.Positions(2, 10) != nil || reader.Positions(-1, 10) != nil {
		t.Fatalf("%+v", all)
	}
	p := all[0]
	if last, ok := p.Last(); !ok || last.Call != call || last.Caller != "train/main.go:88" {
		t.Errorf("last call %+v", last)
	}
	if p.Comm != (Comm{12, 3, 4}) || p.Entered != 100 || p.Done != 99 || !p.Open() || !p.Since.IsZero() || p.Waits != -1 || len(p.Calls) != 10 || p.Calls[9].Seq != 91 {
		t.Errorf("%+v", p)
	}
	line.MarkWaiting(2)
	if p := reader.Positions(1, 1000)[0]; p.Since.IsZero() || p.Waits != 2 || len(p.Calls) != lineCalls-2 {
		t.Errorf("waiting: since %v for %d, %d calls", p.Since, p.Waits, len(p.Calls))
	}
	line.Leave()
	line.Enter(call)
	if p := reader.Positions(1, 1)[0]; !p.Since.IsZero() || p.Waits != -1 {
		t.Errorf("the next call: %+v", p)
	}
	line.Close()
	if n := len(reader.Positions(1, 1)); n != 0 {
		t.Errorf("%d lines are open", n)
	}
	var none *Line
	none.Enter(call)
	none.MarkWaiting(1)
	none.Leave()
	none.Close()
}

func TestLinesAndSitesAreBounded(t *testing.T) {
	b := create(t, Options{Ranks: 1})
	for i := range maxLines {
		if b.OpenLine(0, Comm{ID: uint64(i)}) == nil {
			t.Fatalf("no line %d", i)
		}
	}
	if b.OpenLine(0, Comm{}) != nil || b.OpenLine(1, Comm{}) != nil {
		t.Error("a line too many")
	}
	for i := range maxSites + 10 {
		if n := b.Site(0, strings.Repeat("x", 200)+strconv.Itoa(i)); int(n) > maxSites {
			t.Fatalf("site %d", n)
		}
	}
}

// TestReaderBesideAWriter reads positions while the rank calls. No call that it returns
// is torn.
func TestReaderBesideAWriter(t *testing.T) {
	b := create(t, Options{Ranks: 1})
	line := b.OpenLine(0, Comm{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := uint64(1); ; n++ {
			line.Enter(Call{Seq: n, Count: n, Tag: int32(n)})
			line.Leave()
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for range 2000 {
		for _, p := range b.Positions(0, lineCalls) {
			for _, c := range p.Calls {
				if c.Seq != c.Count || int32(c.Count) != c.Tag {
					t.Fatalf("torn call %+v", c)
				}
			}
		}
	}
	close(stop)
	wg.Wait()
}

func TestAwaitAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	b := create(t, Options{Ranks: 1, Memory: 64})
	line, word := b.OpenLine(0, Comm{}), WordAt(b.Memory())
	w := b.Waiter(0, nil, line)
	if n := testing.AllocsPerRun(100, func() {
		line.Enter(Call{Seq: 1})
		word.Publish(1)
		_ = w.Await(t.Context(), word, 1)
		line.Leave()
	}); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}

// TestMessages writes ends of messages and reads them by their names.
func TestMessages(t *testing.T) {
	b := create(t, Options{Ranks: 3})
	site := b.Site(1, "main.go:8")
	end := func(seq uint64) End { return End{Comm: 1 << 40, Peer: 2, Send: true, Seq: seq} }
	message := func(seq uint64) Message { return Message{Kind: 4, Type: 7, Site: site, Seq: seq, Count: 10 * seq} }
	for seq := range uint64(200) {
		b.WriteMessage(1, end(seq+1), message(seq+1))
	}
	b.WriteMessage(3, end(1), message(1)) // of no rank
	change := func(do func(e *End)) End {
		e := end(200)
		do(&e)
		return e
	}
	for name, c := range map[string]struct {
		local int
		end   End
		known bool
	}{
		"last":               {1, end(200), true},
		"oldest":             {1, end(200 - lastMessages + 1), true},
		"overwritten":        {1, end(200 - lastMessages), false},
		"not yet":            {1, end(201), false},
		"other rank":         {2, end(200), false},
		"no rank":            {3, end(200), false},
		"other direction":    {1, change(func(e *End) { e.Send = false }), false},
		"other peer":         {1, change(func(e *End) { e.Peer = 0 }), false},
		"peer far away":      {1, change(func(e *End) { e.Peer += maxMessages }), false},
		"other communicator": {1, change(func(e *End) { e.Comm++ }), false},
	} {
		got, ok := b.ReadMessage(c.local, c.end)
		if ok != c.known || ok && got != message(c.end.Seq) {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
	if at := b.Caller(1, site) + b.Caller(1, 0) + b.Caller(2, site) + b.Caller(3, 1); at != "main.go:8" {
		t.Errorf("callers %q", at)
	}
	if n := testing.AllocsPerRun(100, func() {
		b.WriteMessage(1, end(1), message(1))
		b.ReadMessage(1, end(1))
	}); n != 0 && !raceEnabled {
		t.Errorf("%v allocations a message", n)
	}
}

// FuzzBoard fills a board with what a faulty rank may write and reads all of it.
func FuzzBoard(f *testing.F) {
	f.Add([]byte{}, uint32(0))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff"), uint32(headerSize))
	f.Add([]byte("\x01\x00\x00\x00"), uint32(headerSize+int(unsafe.Offsetof(page{}.lines))))
	b := create(f, Options{Ranks: 2, Memory: 64})
	size := sizeOf(2, 0)
	f.Fuzz(func(t *testing.T, junk []byte, offset uint32) {
		if len(junk) == 0 {
			junk = []byte{0xff}
		}
		start := int(offset) % size
		for i := start; i < min(size, start+2*rankSize); i++ {
			b.data[i] = junk[(i-start)%len(junk)]
		}
		for local := -1; local < 3; local++ {
			b.Member(local)
			b.ReadMessage(local, End{Comm: uint64(offset), Peer: local, Seq: uint64(len(junk))})
			b.Caller(local, uint16(offset))
			for _, p := range b.Positions(local, 100) {
				if len(p.Calls) > lineCalls {
					t.Fatalf("%d calls", len(p.Calls))
				}
			}
		}
		b.Aborted()
		b.Cause()
		b.wakeAll()
	})
}
