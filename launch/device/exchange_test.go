package device

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"
	"time"
)

// exchanges returns what a keeper gives to n agents.
func exchanges(t *testing.T, n int) []*Exchange {
	t.Helper()
	answer, err := os.Create(filepath.Join(t.TempDir(), "answer"))
	if err != nil {
		t.Fatal(err)
	}
	rd, wr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Close(); rd.Close(); wr.Close() })
	all := []*Exchange{{Others: n - 1, Answer: answer, Ready: wr}}
	for range n - 1 {
		all = append(all, &Exchange{Others: -1, Answer: answer, Ready: rd})
	}
	return all
}

// survey returns what an agent gets if ask asks the driver.
func survey(ctx context.Context, x *Exchange, ask func() (Report, error)) (r Report, err error) {
	x.survey(ctx, func(_ context.Context, use func(Report, error)) { use(ask()) }, func(got Report, why error) { r, err = got, why })
	return r, err
}

// TestExchange checks that the first agent's answer, also an error, is that of all
// agents, and that only it asks the driver.
func TestExchange(t *testing.T) {
	gpus := []GPU{{UUID: "GPU-1", Minor: new(3), MIG: new(false)}}
	answer := Report{Probe: reportVersion, GPUs: gpus, NVML: "12", Processes: []Process{{UUID: "GPU-1", PID: 7}}}
	noLibrary := errors.New("no library")
	for name, want := range map[string]struct {
		own    Report // of the first agent
		report Report // of the others
		err    error
	}{
		"an answer":         {answer, answer, nil},
		"an error":          {Report{}, Report{Probe: reportVersion, Error: "no library"}, noLibrary},
		"the child's error": {Report{Probe: reportVersion, Error: "no library"}, Report{Probe: reportVersion, Error: "no library"}, noLibrary},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			all := exchanges(t, 4)
			done := make(chan error, len(all))
			for _, x := range all[1:] {
				go func() {
					r, err := survey(t.Context(), x, func() (Report, error) { asked.Add(1); return Report{}, nil })
					if !reflect.DeepEqual(r, want.report) || (err == nil) != (want.err == nil) || err != nil && err.Error() != want.err.Error() {
						t.Errorf("got %+v, %v", r, err)
					}
					done <- nil
				}()
			}
			r, err := survey(t.Context(), all[0], func() (Report, error) { asked.Add(1); return want.own, want.err })
			if !errors.Is(err, want.err) || !reflect.DeepEqual(r, want.own) {
				t.Errorf("the first agent got %+v, %v", r, err)
			}
			for range all[1:] {
				<-done
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("the driver was asked %d times", n)
			}
		})
	}
}

// TestExchangeWithoutAnswer checks that an agent asks for itself if the first agent ends
// before it has an answer, or if its answer cannot be read.
func TestExchangeWithoutAnswer(t *testing.T) {
	own := Report{NVML: "own"}
	ask := func() (Report, error) { return own, nil }
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, first := range map[string]func(x *Exchange){
		"the first agent's job ends": func(x *Exchange) {
			_, _ = survey(ended, x, func() (Report, error) { return Report{}, ended.Err() })
		},
		"the first agent is killed": func(x *Exchange) { x.Ready.Close() },
		"the answer is no report": func(x *Exchange) {
			_, _ = x.Answer.WriteAt([]byte(`{"gorun_gpu_probe":1,"gpus":[{}]}`+"\n"), 0)
			_, _ = x.Ready.Write([]byte{0})
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := exchanges(t, 2)
			first(all[0])
			if r, err := survey(t.Context(), all[1], ask); err != nil || !reflect.DeepEqual(r, own) {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
	waits, began := exchanges(t, 2)[1], time.Now() // the first agent never answers
	if _, err := survey(ended, waits, func() (Report, error) { return own, ended.Err() }); !errors.Is(err, context.Canceled) || time.Since(began) > answerTimeout/2 {
		t.Errorf("a wait ended with %v after %v, not with its context", err, time.Since(began))
	}
}
