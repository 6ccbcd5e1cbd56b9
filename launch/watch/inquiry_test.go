package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/launch/hang"
	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/rendezvous"
)

// fakeJob is a job of nodes with two ranks each, as its coordinator sees it.
type fakeJob struct {
	nodes  int
	breaks func(topic string) bool // whether a question fails; nil: none, unless fails is set
	silent map[int]bool            // nodes that do not answer
	halves map[int]bool            // nodes that answer for one of their ranks
	works  bool                    // a rank makes progress
	fails  bool                    // every question fails
	asked  map[string]int
	mu     sync.Mutex // of what is above: questions are asked beside the test
	posted []rendezvous.Hung
	said   []string
}

// change changes the job while the inquiry runs.
func (j *fakeJob) change(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f()
}

var errUnreachable = errors.New("nobody is there")

// answer is the answer of a node to a question.
func answer(topic string, body any) json.RawMessage {
	b, err := json.Marshal(body)
	if err == nil {
		b, err = json.Marshal(status.Answer{Topic: topic, Body: b})
	}
	if err != nil {
		panic(err)
	}
	return b
}

// ask is InquiryOptions.Ask.
func (j *fakeJob) ask(_ context.Context, q rendezvous.Question) ([]byte, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked[q.Topic]++
	if j.fails || j.breaks != nil && j.breaks(q.Topic) {
		return nil, errUnreachable
	}
	v := rendezvous.View{Phase: "running", Round: 1, Size: 2 * j.nodes}
	for i := range j.nodes {
		n := rendezvous.NodeView{Host: fmt.Sprint("n", i), GroupRank: i, FirstRank: 2 * i, Workers: 2}
		if q.Topic == status.TopicSigns && !j.silent[i] {
			signs := []hang.Sign{j.sign(2 * i), j.sign(2*i + 1)}
			if j.halves[i] {
				signs = signs[:1]
			}
			n.Report = answer(q.Topic, Signs{Round: 1, Signs: signs})
		}
		v.Nodes = append(v.Nodes, n)
	}
	return json.Marshal(v)
}

// sign says that a rank waits in a collective which rank 1 has not entered, or that rank 1
// computes.
func (j *fakeJob) sign(rank int) hang.Sign {
	const long = time.Hour
	s := hang.Sign{Rank: rank, Doing: hang.Still, State: "S", Still: long, Quiet: long, Lines: []hang.Line{{Me: rank, Size: 2 * j.nodes, Seq: 6}}}
	if rank != 1 {
		s.Doing, s.Lines[0].Seq = hang.Waits, 7
		s.Lines[0].Open = &hang.Call{Text: "all-reduce #7", Number: 7, Age: long}
	} else if j.works {
		s.Doing, s.Still, s.Quiet = hang.Computes, 0, 0
	}
	return s
}

// inquire runs an inquiry into the job beside the test.
func (j *fakeJob) inquire(t *testing.T) *Inquiry {
	j.asked = map[string]int{}
	q := NewInquiry(InquiryOptions{
		Timeout: time.Minute, Ask: j.ask,
		Post: func(h rendezvous.Hung) { j.posted = append(j.posted, h) },
		Say:  func(format string, args ...any) { j.said = append(j.said, fmt.Sprintf(format, args...)) },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		q.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return q
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d) // sleep: of the bubble's clock
	synctest.Wait()
}

// TestSilentNodesLeaveTheReport checks that nodes which do not answer take no report back,
// and that this is said when it lasts.
func TestSilentNodesLeaveTheReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &fakeJob{nodes: 3}
		j.inquire(t).Investigate(1)
		pass(20 * time.Second)
		if len(j.posted) != 1 || j.posted[0].Cause == nil || j.posted[0].Cause.Rank != 1 {
			t.Fatalf("%+v", j.posted)
		}
		j.change(func() { j.silent = map[int]bool{1: true} })
		pass(20 * time.Second)
		if len(j.posted) != 1 || len(j.said) != 0 {
			t.Fatalf("%+v, %q", j.posted, j.said)
		}
		j.change(func() { j.silent = nil })
		pass(20 * time.Second)
		j.change(func() { j.silent, j.halves = map[int]bool{1: true}, map[int]bool{2: true} })
		pass(3 * time.Minute)
		if len(j.posted) != 1 || len(j.said) != 1 || !strings.HasPrefix(j.said[0], "no answer from n1, n2 for 3") || !strings.Contains(j.said[0], "whether the job still hangs") {
			t.Fatalf("%+v, %q", j.posted, j.said)
		}
		j.change(func() { j.silent, j.halves, j.works = nil, nil, true })
		pass(20 * time.Second)
		if len(j.posted) != 2 || j.posted[1].Cause != nil {
			t.Errorf("%+v", j.posted)
		}
	})
}

// TestFailedQuestionsAreAskedAgain checks that an inquiry goes on by itself after questions
// that failed, and not without end.
func TestFailedQuestionsAreAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &fakeJob{nodes: 2, fails: true}
		q := j.inquire(t)
		q.Investigate(1)
		pass(5 * time.Second)
		j.change(func() { j.fails = false })
		pass(20 * time.Second)
		if len(j.posted) != 1 || j.posted[0].Cause == nil {
			t.Fatalf("no report after questions that failed: %+v", j.posted)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		j := &fakeJob{nodes: 2, fails: true}
		q := j.inquire(t)
		q.Investigate(1)
		pass(time.Hour)
		first := j.asked[status.TopicSigns]
		if first < 5 || first > 50 || len(j.said) != 1 || !strings.Contains(j.said[0], "no answer from any node") {
			t.Errorf("asked %d times, said %q", first, j.said)
		}
		q.Investigate(1)
		pass(time.Hour)
		if n := j.asked[status.TopicSigns]; n != 2*first || len(j.said) != 2 || len(j.posted) != 0 {
			t.Errorf("asked %d times, after %d, said %q", n, first, j.said)
		}
	})
}

// TestFailedGatherIsRepeated checks that the questions for collectives and stacks are asked
// again when they did not reach the nodes, a few times.
func TestFailedGatherIsRepeated(t *testing.T) {
	for _, lasting := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			j := &fakeJob{nodes: 2}
			j.breaks = func(topic string) bool {
				return topic == status.TopicStacks && (lasting || j.asked[topic] == 1)
			}
			j.inquire(t).Investigate(1)
			pass(time.Minute)
			want := 2
			if lasting {
				want = maxTries
			}
			if got := j.asked[status.TopicStacks]; got != want || len(j.posted) != 1 {
				t.Errorf("lasting %v: gathered %d times, want %d; %+v", lasting, got, want, j.posted)
			}
		})
	}
}

// TestFloodOfSigns checks what stays in memory of the answers of 1,000 nodes, of which some
// send as much as a node may.
func TestFloodOfSigns(t *testing.T) {
	const nodes, hostile, most = 1000, 40, 256 << 10
	texts := []func(rank int) string{
		func(rank int) string { // many lines
			return fmt.Sprintf(`{"round":1,"signs":[{"rank":%d,"lines":[%s{}]}]}`, rank, strings.Repeat("{},", (most-200)/3))
		},
		func(rank int) string { // many signs
			return fmt.Sprintf(`{"round":1,"signs":[{"rank":%d},%s{"rank":%d}]}`, rank, strings.Repeat("{},", (most-200)/3), rank+1)
		},
		func(rank int) string { // long texts
			return fmt.Sprintf(`{"round":1,"signs":[{"rank":%d,"lines":[{"last":"%s","open":{"text":"x"}}]}]}`, rank, strings.Repeat("y", most-200))
		},
	}
	v := rendezvous.View{Phase: "running", Round: 1, Size: 2 * nodes}
	for i := range nodes {
		n := rendezvous.NodeView{Host: fmt.Sprint("n", i), GroupRank: i, FirstRank: 2 * i, Workers: 2}
		body := fmt.Sprintf(`{"round":1,"signs":[{"rank":%d,"doing":"still","still_ns":9000000000000},{"rank":%d,"doing":"still","still_ns":9000000000000}]}`, 2*i, 2*i+1)
		if i < hostile {
			body = texts[i%len(texts)](2 * i)
		}
		n.Report = json.RawMessage(fmt.Sprintf(`{"topic":%q,"answer":%s}`, status.TopicSigns, body))
		v.Nodes = append(v.Nodes, n)
	}
	view, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	q := NewInquiry(InquiryOptions{Timeout: time.Minute, Ask: func(context.Context, rendezvous.Question) ([]byte, error) { return view, nil }})
	q.round, q.job = 1, hang.NewCase(time.Minute)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	e, p, runs := q.evidence(t.Context())
	after := heap()
	if !runs || len(e.Signs) < 2*(nodes-hostile) || len(e.Signs) > 2*nodes || hang.Judge(e).State != hang.NotKnown {
		t.Fatalf("%v, %d signs", runs, len(e.Signs))
	}
	if kept := int64(after - before); kept > int64(3*len(view)) {
		t.Errorf("%d MiB stay of a view of %d MiB", kept>>20, len(view)>>20)
	}
	if text := q.silence.String(); len(text) > 200 {
		t.Error(text)
	}
	runtime.KeepAlive(e)
	runtime.KeepAlive(p)
}
