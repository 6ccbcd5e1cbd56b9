package hang

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

const timeout = 300 * time.Second

// sign returns the sign of a rank that has done nothing for so long.
func sign(rank int, still time.Duration, lines ...Line) Sign {
	s := Sign{Rank: rank, PID: 100 + rank, Doing: Still, State: "S", Still: still, Quiet: still, Lines: lines}
	if s.oldest() != nil {
		s.Doing = Waits
	}
	return s
}

// in returns the line of a rank of the world that is in collective n.
func in(me, size int, n uint64, age time.Duration) Line {
	return Line{Me: me, Size: size, Seq: n, Last: "train.go:88", Open: &Call{Text: fmt.Sprintf("all-reduce #%d", n), Where: "train.go:88", Number: n, Age: age}}
}

// aside returns the line of a rank of the world that has begun collective n and goes on.
func aside(me, size int, n uint64, age time.Duration) Line {
	l := in(me, size, n, age)
	l.Open.Waits = Aside
	return l
}

// after returns the line of a rank of the world whose last collective was n.
func after(me, size int, n uint64) Line {
	return Line{Me: me, Size: size, Seq: n, Last: "train.go:70"}
}

// message returns a line of a rank that sends to or receives from a peer.
func message(me, size, peer int, w For, age time.Duration) Line {
	return Line{Me: me, Size: size, Open: &Call{Text: fmt.Sprintf("%s #1 of rank %d", w, peer), Where: "p2p.go:5", Waits: w, Peer: peer, Number: 1, Age: age}}
}

func frozen(s Sign) Sign {
	s.Doing, s.State = Frozen, "T"
	return s
}

func computing(s Sign) Sign {
	s.Doing, s.State, s.Still = Computes, "R", 0
	return s
}

// TestJudge checks the rule: what is a hang, who is at fault, and what is none.
func TestJudge(t *testing.T) {
	const long, short = timeout + time.Second, 20 * time.Second
	known := Known{Waiting: []int{0, 1, 2}, Ranks: []int{3}, Collective: "all_reduce number 7 of default_pg", Text: "rank 3 did not call it", Where: "load (data.py:13)", Age: long}
	stopped := frozen(sign(1, long))
	ended := Sign{Rank: 1, Doing: Ended}
	tests := []struct {
		name  string
		signs []Sign
		known []Known
		size  int
		state State
		shape Shape
		ranks []int
		text  string
	}{
		{"all compute", []Sign{computing(sign(0, 0)), computing(sign(1, 0))}, nil, 2, Works, "", nil, ""},
		{
			"a rank skips a collective",
			[]Sign{sign(0, long, in(0, 3, 7, long)), sign(1, long, after(1, 3, 6)), sign(2, long, in(2, 3, 7, long))},
			nil, 3,
			Hangs, Behind,
			[]int{1},
			"rank 1 (n1) never entered all-reduce #7 that ranks 0 and 2 wait in at train.go:88 since 5m1s; it is in load (data.py:13)",
		},
		{"a rank that is behind computes", []Sign{sign(0, long, in(0, 2, 7, long)), computing(sign(1, 0, after(1, 2, 6)))}, nil, 2, Works, "", nil, ""},
		{"ranks that wait spin", []Sign{computing(sign(0, 0, in(0, 2, 7, long))), sign(1, long, after(1, 2, 6))}, nil, 2, Hangs, Behind, []int{1}, ""},
		{"not for long enough", []Sign{sign(0, short, in(0, 2, 7, short)), sign(1, short, after(1, 2, 6))}, nil, 2, Works, "", nil, ""},
		{"nearly long enough", []Sign{sign(0, timeout-time.Second, in(0, 2, 7, short)), sign(1, timeout-time.Second, after(1, 2, 6))}, nil, 2, Suspects, Behind, []int{1}, ""},
		{"programs that sleep", []Sign{sign(0, long), sign(1, long)}, nil, 2, Hangs, Unknown, nil, "no rank has made progress for 5m1s"},
		{"a node has not answered", []Sign{sign(0, long)}, nil, 2, NotKnown, "", nil, ""},
		{"a node has not answered, and another one computes", []Sign{computing(sign(0, 0))}, nil, 2, NotKnown, "", nil, ""},
		{"a rank is stopped", []Sign{sign(0, long), stopped}, nil, 2, Hangs, Unknown, []int{1}, "rank 1 (n1) is stopped by a signal (kill -CONT 101"},
		{
			"a rank is stopped inside a collective",
			[]Sign{sign(0, long, in(0, 3, 7, long)), frozen(sign(1, long, in(1, 3, 7, long))), sign(2, long, in(2, 3, 8, long))},
			nil, 3,
			Hangs, Behind,
			[]int{1},
			"rank 1 (n1) does not go on in all-reduce #7 that rank 0 waits in",
		},
		{
			"a rank is stopped in the collective that all are in",
			[]Sign{sign(0, long, in(0, 3, 7, long)), frozen(sign(1, long, in(1, 3, 7, long))), sign(2, long, in(2, 3, 7, long))},
			nil, 3,
			Hangs, Behind,
			[]int{1},
			"rank 1 (n1) does not go on in all-reduce #7 that ranks 0 and 2 wait in at train.go:88 since 5m1s; it is stopped by a signal (kill -CONT 101",
		},
		{
			"two ranks are stopped in the collective that all are in, and the third spins",
			[]Sign{frozen(sign(0, long, in(0, 3, 7, long))), computing(sign(1, 0, in(1, 3, 7, long))), frozen(sign(2, long, in(2, 3, 7, long)))},
			nil, 3,
			Hangs, Behind,
			[]int{0, 2},
			"ranks 0 and 2 do not go on in all-reduce #7 that rank 1 waits in",
		},
		{"all are stopped in one collective", []Sign{frozen(sign(0, 3*time.Second, in(0, 2, 7, 3*time.Second))), frozen(sign(1, 3*time.Second, in(1, 2, 7, 3*time.Second)))}, nil, 2, Works, "", nil, ""},
		{
			"a rank is stopped before it says anything",
			[]Sign{sign(0, long, in(0, 3, 1, long)), frozen(sign(1, long)), sign(2, long, in(2, 3, 1, long))},
			nil, 3,
			Hangs, Behind,
			[]int{1},
			"rank 1 (n1) never entered all-reduce #1 that ranks 0 and 2 wait in",
		},
		{
			"a rank is stopped while it enters a collective",
			[]Sign{sign(0, long, in(0, 2, 1, long)), frozen(sign(1, long, Line{Me: 1, Size: 2, Unsure: true}))},
			nil, 2,
			Hangs, Behind,
			[]int{1},
			"rank 1 (n1) never entered all-reduce #1 that rank 0 waits in",
		},
		{
			"a rank is stopped after the collective that another one is still in",
			[]Sign{sign(0, long, in(0, 2, 7, long)), frozen(sign(1, long, after(1, 2, 7)))},
			nil, 2,
			Hangs, Together,
			[]int{1},
			"rank 1 (n1) is stopped by a signal (kill -CONT 101 lets it go on); rank 0 is in all-reduce #7 at train.go:88 for 5m1s, and it does not end",
		},
		{
			"a rank is stopped in the other end of a message",
			[]Sign{sign(0, long, message(0, 2, 1, ForReceiver, long)), frozen(sign(1, long, message(1, 2, 0, ForSender, long)))},
			nil, 2,
			Hangs, Behind,
			[]int{1},
			"rank 1 (n1) does not go on in receiver #1 of rank 1 that rank 0 waits in",
		},
		{
			"a rank of which it is not known where it is",
			[]Sign{sign(0, long, in(0, 2, 7, long)), sign(1, long, Line{Me: 1, Size: 2, Unsure: true})},
			nil, 2,
			Hangs, Unknown, nil, "no rank has made progress",
		},
		{"a rank has ended", []Sign{sign(0, long, in(0, 2, 7, long)), ended}, nil, 2, Hangs, Behind, []int{1}, "it has ended with exit code 0"},
		{"all have ended", []Sign{{Rank: 0, Doing: Ended}, ended}, nil, 2, Works, "", nil, ""},
		{"all are in it", []Sign{sign(0, long, in(0, 2, 7, long)), sign(1, long, in(1, 2, 7, long))}, nil, 2, Hangs, Together, nil, "ranks 0 and 1 are all in all-reduce #7"},
		{"all are in it and spin", []Sign{computing(sign(0, 0, in(0, 2, 7, long))), sign(1, long, in(1, 2, 7, long))}, nil, 2, Works, "", nil, ""},
		{
			"two ranks send first",
			[]Sign{sign(0, 3*time.Second, message(0, 2, 1, ForReceiver, 3*time.Second)), sign(1, 3*time.Second, message(1, 2, 0, ForReceiver, 3*time.Second))},
			nil, 2,
			Hangs, Closed,
			[]int{0, 1},
			"rank 0 is in receiver #1 of rank 1 at p2p.go:5; rank 1 is in receiver #1 of rank 0 at p2p.go:5; let one of them receive first",
		},
		{"a message is on its way", []Sign{sign(0, 3*time.Second, message(0, 2, 1, ForReceiver, 3*time.Second)), sign(1, 3*time.Second, message(1, 2, 0, ForSender, 3*time.Second))}, nil, 2, Works, "", nil, ""},
		{
			"a collective and a message",
			[]Sign{sign(0, 3*time.Second, in(0, 2, 7, 3*time.Second)), sign(1, 3*time.Second, message(1, 2, 0, ForSender, 3*time.Second))},
			nil, 2,
			Hangs, Closed,
			[]int{0, 1},
			"rank 0 is in all-reduce #7 at train.go:88; rank 1 is in sender #1 of rank 0 at p2p.go:5; let all ranks make the same calls in the same order",
		},
		{"an asynchronous collective", []Sign{sign(0, long, aside(0, 2, 7, long)), sign(1, long, after(1, 2, 6))}, nil, 2, Hangs, Behind, []int{1}, "never entered all-reduce #7"},
		{"an asynchronous collective, and the rank goes on", []Sign{computing(sign(0, 0, aside(0, 2, 7, long))), sign(1, long, after(1, 2, 6))}, nil, 2, Works, "", nil, ""},
		{
			"recorders of ranks that spin",
			[]Sign{computing(sign(0, 0)), computing(sign(1, 0)), computing(sign(2, 0)), sign(3, long)},
			[]Known{known},
			4,
			Hangs, Behind,
			[]int{3},
			"rank 3 (n3) never entered all_reduce number 7 of default_pg that ranks 0, 1 and 2 wait in since 5m1s; it is in load (data.py:13)",
		},
		{"recorders, and the rank computes", []Sign{computing(sign(0, 0)), computing(sign(1, 0)), computing(sign(2, 0)), computing(sign(3, 0))}, []Known{known}, 4, Works, "", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := Judge(Evidence{Size: tt.size, Signs: tt.signs, Known: tt.known, Asked: true, Timeout: timeout})
			if a.State != tt.state || a.Finding.Shape != tt.shape || !slices.Equal(a.Finding.Ranks, tt.ranks) {
				t.Fatalf("%+v", a)
			}
			text := a.Finding.Sentence(Place{
				Host:  func(r int) string { return fmt.Sprint("n", r) },
				Where: func(r int) string { return "load (data.py:13)" },
			})
			if !strings.Contains(text, tt.text) {
				t.Errorf("%q is not in %q", tt.text, text)
			}
			if stop := a.Finding.MayStop(timeout); a.State == Hangs && stop == (tt.shape == Unknown) {
				t.Errorf("may stop: %v", stop)
			}
		})
	}
}

// TestClosedCycles checks which ranks wait for each other. A call is written as "0>1" (rank
// 0 sends to rank 1), "0<1" (it receives), "0*3" (in collective 3 of the world), "0a2" (in
// collective 2 of communicator a), with a tag after a colon and ? for a call that is new. A
// rank has last entered collective 1 of each communicator unless it is in another.
func TestClosedCycles(t *testing.T) {
	for calls, want := range map[string]string{
		"":                     "",
		"0>1 1>0":              "0 1",
		"0<1 1<0":              "0 1",
		"0>1 1>2 2>0":          "0 1 2",
		"0>1 1>2 2>1":          "1 2", // rank 0 waits for the cycle
		"0>1 1<0":              "",    // a message
		"0>1:5 1<0:6":          "0 1", // another tag
		"0>1 1>0?":             "",
		"0>1":                  "", // rank 1 computes
		"0>1 1>0 1<0":          "",
		"0>1 1>0 0>2":          "", // rank 2 may receive
		"0>1 1>0 0>2 2>1":      "0 1",
		"0>0":                  "0",
		"0>1 1>0 2>3 3>2":      "0 1",
		"0>1 1>2 2>3 3>1 0<3?": "1 2 3",
		"0*2 1<0":              "0 1", // a collective that rank 1 does not enter
		"0*2 1*2":              "",
		"0*2 1a2":              "0 1", // collectives of two communicators in another order
		"0*2 1a2 2*2 3a2":      "0 1",
		"0*2 1a2?":             "",
		"0*3 1*3 2*2":          "", // rank 2 is in one that the others have left
		"0&2 1<0":              "", // rank 0 goes on beside its collective
		"0*2 1&2 1<0":          "",
	} {
		signs := map[int]*Sign{}
		var all []Sign
		rank := func(r int) *Sign {
			if signs[r] == nil {
				signs[r] = &Sign{Rank: r, Doing: Still}
			}
			return signs[r]
		}
		for _, text := range strings.Fields(calls) {
			age := time.Minute
			if cut, isNew := strings.CutSuffix(text, "?"); isNew {
				text, age = cut, 0
			}
			text, tag, _ := strings.Cut(text, ":")
			var me, n int
			var what string
			if _, err := fmt.Sscanf(text, "%1d%1s%d", &me, &what, &n); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			c := &Call{Text: text, Age: age, Number: uint64(len(all) + 1), Peer: n}
			_, _ = fmt.Sscan(tag, &c.Tag)
			l := Line{Me: me, Size: 2, Seq: 1, Open: c}
			switch what {
			case ">":
				c.Waits = ForReceiver
				rank(n)
			case "<":
				c.Waits = ForSender
				rank(n)
			case "&":
				l.Seq, c.Waits = uint64(n), Aside
			case "*":
				l.Seq = uint64(n)
			case "a":
				l.Comm, l.Seq = 10, uint64(n)
			}
			s := rank(me)
			s.Doing, s.Lines = Waits, append(s.Lines, l)
		}
		for _, s := range signs {
			for _, comm := range []uint64{0, 10} {
				if s.last(comm) == nil {
					s.Lines = append(s.Lines, Line{Comm: comm, Me: s.Rank, Size: 2, Seq: 1})
				}
			}
			all = append(all, *s)
		}
		var got []string
		for _, e := range newGraph(all).closedCycle() {
			got = append(got, fmt.Sprint(e.rank))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: cycle %q, want %q", calls, got, want)
		}
	}
}

// TestRandomSchedules plays jobs in virtual time. Each rank computes, reads files, sleeps and
// enters collectives at random, until in some jobs one of them never goes on. A hang must be
// reported soon after the timeout, for the rank that is behind, and none before.
func TestRandomSchedules(t *testing.T) {
	for seed := range uint64(2000) {
		j := newTestJob(seed)
		j.run(t)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// testJob is a simulated job.
type testJob struct {
	r       *rand.Rand
	timeout time.Duration
	ranks   []*testRank
	now     time.Time
	since   time.Time // from when on no rank can go on
}

// testRank is a simulated rank: it works until a time and then enters the next collective.
type testRank struct {
	*Rank
	seq     uint64
	inside  bool
	entered time.Time
	until   time.Time
	doing   Doing
	stuck   bool
}

func newTestJob(seed uint64) *testJob {
	j := &testJob{r: rand.New(rand.NewPCG(seed, 15)), now: time.Unix(1000, 0)}
	j.timeout = time.Duration(4+j.r.IntN(12)) * time.Second
	for i := range 2 + j.r.IntN(6) {
		r := &testRank{Rank: NewRank(i, j.now)}
		j.work(r)
		j.ranks = append(j.ranks, r)
	}
	return j
}

// work gives a rank something to do. Sleeping takes less than the timeout, the rest may take
// much longer.
func (j *testJob) work(r *testRank) {
	r.inside = false
	r.doing = []Doing{Computes, Files, Still}[j.r.IntN(3)]
	limit := j.timeout * 3
	if r.doing == Still {
		limit = j.timeout / 2
	}
	r.until = j.now.Add(time.Duration(j.r.Int64N(int64(limit))))
}

func (j *testJob) run(t *testing.T) {
	t.Helper()
	c := NewCase(j.timeout)
	hangAt := j.now.Add(time.Duration(j.r.Int64N(int64(6 * j.timeout))))
	hangs := j.r.IntN(2) == 0
	var culprit *testRank
	end := j.now.Add(12 * j.timeout)
	again := time.Time{}
	for ; j.now.Before(end); j.now = j.now.Add(250 * time.Millisecond) {
		if hangs && culprit == nil && j.now.After(hangAt) {
			if r := j.ranks[j.r.IntN(len(j.ranks))]; !r.inside {
				culprit, r.stuck, r.doing = r, true, Still
				r.until = end.Add(time.Hour)
			}
		}
		j.step()
		var signs []Sign
		for _, r := range j.ranks {
			signs = append(signs, r.Sign(j.now))
		}
		if again.IsZero() && !NearlyStill(signs, j.timeout) || j.now.Before(again) {
			continue
		}
		a := Judge(Evidence{Size: len(j.ranks), Signs: signs, Asked: true, Timeout: j.timeout})
		d, err := c.Step(a)
		if err != nil {
			t.Fatal(err)
		}
		again = time.Time{}
		if d.Again > 0 {
			again = j.now.Add(d.Again)
		}
		if d.Action == Report {
			switch {
			case culprit == nil:
				t.Errorf("a false alarm: %+v", a)
			case !slices.Equal(a.Finding.Ranks, []int{culprit.rank}):
				t.Errorf("ranks %v, want %d", a.Finding.Ranks, culprit.rank)
			case j.now.Sub(j.since) < j.timeout-time.Second:
				t.Errorf("after %v of %v", j.now.Sub(j.since), j.timeout)
			case j.now.Sub(j.since) > j.timeout+2*time.Second:
				t.Errorf("only after %v of %v", j.now.Sub(j.since), j.timeout)
			}
			return
		}
	}
	if culprit != nil && end.Sub(j.since) > j.timeout+5*time.Second {
		t.Errorf("no report, though nothing has moved for %v", end.Sub(j.since))
	}
}

// step lets a quarter of a second pass.
func (j *testJob) step() {
	moved := false
	lowest := j.ranks[0].seq
	for _, r := range j.ranks {
		lowest = min(lowest, r.seq)
	}
	for _, r := range j.ranks {
		switch {
		case r.inside && r.seq == lowest: // all have entered it
			j.work(r)
			moved = true
		case !r.inside && !j.now.Before(r.until):
			r.seq++
			r.inside, r.entered = true, j.now
			moved = true
		}
		const tick = 250 * time.Millisecond
		l := Look{State: 'S', Idle: tick}
		calls := Calls{Entered: r.seq * 2, Lines: []Line{{Me: r.rank, Size: len(j.ranks), Seq: r.seq}}}
		switch {
		case r.inside:
			calls.Lines[0].Open = &Call{Text: fmt.Sprintf("all-reduce #%d", r.seq), Number: r.seq, Age: j.now.Sub(r.entered)}
			if j.r.IntN(2) == 0 { // it spins
				l.Run, l.Idle = tick, 0
			}
		case r.doing == Computes && !r.stuck:
			l.Run, l.Idle, moved = tick*8/10, tick*2/10, true
		case r.doing == Files && !r.stuck:
			l.Bytes, moved = 4<<20, true
		default: // polls a store, prints
			l.Run, l.Idle = tick/12, tick*11/12
			l.Bytes = 200
		}
		if !r.inside {
			calls.Entered--
		}
		r.ObserveCalls(j.now, calls)
		r.Observe(j.now, l)
	}
	if moved {
		j.since = j.now
	}
}

// TestStoppedForAMoment checks that only a rank that stays stopped counts as stopped.
func TestStoppedForAMoment(t *testing.T) {
	now := time.Unix(1000, 0)
	r := NewRank(3, now)
	for i, want := range []Doing{Still, Frozen, Still, Still} {
		now = now.Add(time.Second)
		r.Observe(now, Look{State: "TTST"[i], Idle: time.Second})
		if s := r.Sign(now); s.Doing != want || s.Still != time.Duration(i+1)*time.Second {
			t.Errorf("look %d: %+v", i, s)
		}
	}
}

// TestLines checks that a rank which is at other lines of its program than a look before
// makes progress, and that only a rank that has been still for long is asked for them.
func TestLines(t *testing.T) {
	start := time.Unix(1000, 0)
	for name, tt := range map[string]struct {
		lines  []string
		moving bool
	}{
		"one place":                {[]string{"a", "a", "a", "a"}, false},
		"no line of the program":   {[]string{"", "", "", ""}, false},
		"another line":             {[]string{"a", "a", "a", "b"}, true},
		"the program's first line": {[]string{"", "", "", "a"}, true},
		"two lines, long ago":      {[]string{"a", "b", "b", "b"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			now, r := start, NewRank(3, start)
			for _, lines := range tt.lines {
				now = now.Add(time.Second)
				r.Observe(now, Look{State: 'S', Idle: time.Second})
				r.ObserveLines(now, lines)
			}
			if s := r.Sign(now); (s.Still == 0) != tt.moving || (s.Doing == Goes) != tt.moving || s.Quiet != s.Still {
				t.Errorf("%+v", s)
			}
		})
	}
	r := NewRank(3, start)
	for at, want := range map[time.Duration]bool{0: false, 149 * time.Second: false, 249 * time.Second: false, 250 * time.Second: true, time.Hour: true} {
		if got := r.WantsLines(start.Add(at), 5*time.Minute, 5*time.Second); got != want {
			t.Errorf("after %s: %v", at, got)
		}
	}
	if !r.WantsLines(start.Add(1500*time.Millisecond), 3*time.Second, 500*time.Millisecond) {
		t.Error("a short timeout leaves no time for lines")
	}
	// Lines from before the last progress are not compared.
	r.ObserveLines(start.Add(time.Second), "a")
	r.Observe(start.Add(2*time.Second), Look{Run: time.Second})
	r.ObserveLines(start.Add(3*time.Second), "b")
	if s := r.Sign(start.Add(3 * time.Second)); s.Still != time.Second {
		t.Errorf("%+v", s)
	}
}

// TestCase checks what becomes of a case while some nodes do not answer, when a reported
// hang is over, and while nobody is known to wait.
func TestCase(t *testing.T) {
	hangs := Assessment{State: Hangs, Finding: Finding{Shape: Closed, Key: "k"}}
	silent := func(age time.Duration) Assessment { return Assessment{State: NotKnown, Silent: age} }
	step := func(t *testing.T, c *Case, a Assessment, want Action, asksAgain bool) {
		t.Helper()
		d, err := c.Step(a)
		if err != nil || d.Action != want || (d.Again > 0) != asksAgain || d.Again > latest {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	t.Run("reported", func(t *testing.T) {
		c := NewCase(timeout)
		step(t, c, hangs, Nothing, true)
		step(t, c, silent(0), Nothing, true)
		step(t, c, hangs, Report, true)
		for range 3 {
			step(t, c, silent(time.Second), Nothing, true)
			step(t, c, silent(silence), Doubt, true) // once
			step(t, c, silent(silence+time.Second), Nothing, true)
			step(t, c, hangs, Nothing, true)
			if !c.Reported() {
				t.Error("the report is taken back")
			}
		}
		step(t, c, Assessment{State: Works}, Nothing, true)
		step(t, c, Assessment{State: Works}, TakeBack, false)
	})
	t.Run("over for a moment", func(t *testing.T) {
		c := NewCase(timeout)
		step(t, c, hangs, Nothing, true)
		step(t, c, hangs, Report, true)
		for range 3 {
			step(t, c, Assessment{State: Works}, Nothing, true)
			step(t, c, hangs, Nothing, true)
			step(t, c, Assessment{State: Suspects, Ripe: time.Second}, Nothing, true)
			step(t, c, hangs, Nothing, true)
		}
		step(t, c, Assessment{State: Suspects, Ripe: time.Second}, Nothing, true)
		step(t, c, Assessment{State: Suspects, Ripe: time.Second}, TakeBack, true)
		step(t, c, Assessment{State: Suspects, Ripe: time.Second}, Gather, true)
	})
	t.Run("nobody known to wait", func(t *testing.T) {
		c := NewCase(timeout)
		vague := Assessment{State: Hangs, Finding: Finding{Shape: Unknown, Key: "v"}}
		step(t, c, vague, Gather, true)
		step(t, c, vague, Report, true)
		for i := range 20 {
			want := Nothing
			if n := i + 1; n&(n-1) == 0 {
				want = Gather
			}
			step(t, c, vague, want, true)
		}
		step(t, c, hangs, Nothing, true)
		step(t, c, hangs, Report, true)
	})
	t.Run("suspected", func(t *testing.T) {
		c := NewCase(timeout)
		step(t, c, Assessment{State: Suspects, Ripe: time.Second}, Gather, true)
		step(t, c, silent(0), Nothing, true)
		step(t, c, silent(silence), Doubt, false)
		step(t, c, Assessment{State: Suspects, Ripe: time.Second}, Gather, true)
	})
	t.Run("calm", func(t *testing.T) {
		c := NewCase(timeout)
		step(t, c, silent(0), Nothing, true)
		step(t, c, silent(silence), Doubt, false)
		step(t, c, Assessment{State: Works}, Nothing, false)
	})
}
