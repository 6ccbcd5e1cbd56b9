package device

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const watching = `{"gorun_gpu_event":1,"kind":"watching"}` + "\n"

// listen runs Listen with the given child.
func listen(t *testing.T, ctx context.Context, child func(ctx context.Context, out io.Writer) (int, error)) (got []Event, err error) {
	err = Child{
		Argv: []string{"gorun", "__gpus"}, Root: fakeRoot(t),
		Stream: func(ctx context.Context, _ string, argv, _ []string, _ string, out io.Writer) (int, error) {
			if argv[len(argv)-1] != string(Events) {
				t.Errorf("called as %q", argv)
			}
			return child(ctx, out)
		},
	}.Listen(ctx, func(e Event) { got = append(got, e) })
	return got, err
}

func TestListen(t *testing.T) {
	tests := []struct {
		name, output string
		exit         int
		want         string // kinds
		err          string
	}{
		{"a simulated Xid", watching + `{"gorun_gpu_event":1,"kind":"xid","uuid":"GPU-1","code":79}` + "\n", 127, "watching xid", "code 127"},
		{"noise", "ERROR: ld.so\n{}\n{\"gorun_gpu_event\":9}\n" + watching + strings.Repeat("x", 3*maxLine) + "\n" + watching, 0, "watching watching", "code 0"},
		{"half a line", watching + `{"gorun_gpu_event":1,"ki`, 1, "watching", "code 1"},
		{"no library", `{"gorun_gpu_event":1,"kind":"refused","text":"cannot load NVML"}` + "\n", 0, "", "cannot load NVML"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := listen(t, t.Context(), func(_ context.Context, out io.Writer) (int, error) {
				for len(tt.output) > 0 { // in pieces, as a pipe gives them
					n := min(7, len(tt.output))
					_, _ = io.WriteString(out, tt.output[:n])
					tt.output = tt.output[n:]
				}
				return tt.exit, nil
			})
			var kinds []string
			for _, e := range got {
				kinds = append(kinds, string(e.Kind))
			}
			if strings.Join(kinds, " ") != tt.want || err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %q, %v, want %q, %q", kinds, err, tt.want, tt.err)
			}
			if errors.Is(err, ErrNoEvents) != (tt.name == "no library") {
				t.Errorf("of no use to ask again: %v", err)
			}
		})
	}
}

func TestListenEndsASilentChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := listen(t, t.Context(), func(ctx context.Context, out io.Writer) (int, error) {
			for range 5 { // as long as it prints something
				time.Sleep(maxSilence - time.Second) // sleep: in the bubble's time
				_, _ = io.WriteString(out, watching)
			}
			<-ctx.Done() // a hanging driver
			return -1, ctx.Err()
		})
		if err == nil || !strings.Contains(err.Error(), "printed nothing for 1m0s") || time.Since(start) < 5*maxSilence {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := listen(t, ctx, func(ctx context.Context, _ io.Writer) (int, error) {
		cancel()
		<-ctx.Done()
		return -1, ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's end", err)
	}
	if err := (Child{Root: t.TempDir()}).Listen(t.Context(), nil); !errors.Is(err, ErrNoEvents) {
		t.Errorf("without a driver: %v", err)
	}
}

// TestListenRealChild shows that a real child reports that it has no driver.
func TestListenRealChild(t *testing.T) {
	if (Child{}).HasDriver() {
		t.Skip("there is a driver: it would be listened to for ever")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := Child{Path: exe, Argv: []string{"gorun", "probe"}, Env: os.Environ(), Root: fakeRoot(t)}
	c.Stream = func(ctx context.Context, path string, argv, env []string, dir string, out io.Writer) (int, error) {
		cmd := exec.CommandContext(ctx, path, argv[1:]...)
		cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, dir, out, out
		return 0, cmd.Run()
	}
	err = c.Listen(t.Context(), func(e Event) { t.Errorf("got %+v", e) })
	if !errors.Is(err, ErrNoEvents) || !strings.Contains(err.Error(), "NVML") {
		t.Errorf("got %v", err)
	}
}

func FuzzReadEvent(f *testing.F) {
	f.Add([]byte(watching))
	f.Add([]byte(`{"gorun_gpu_event":1,"kind":"xid","code":18446744073709551615,"gi":-1}` + "\n\n{"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := &lineWriter{most: maxLine, line: func(line []byte) {
			if len(line) > maxLine {
				t.Errorf("a line of %d bytes", len(line))
			}
			readEvent(line)
		}}
		if n, err := l.Write(b); n != len(b) || err != nil {
			t.Errorf("wrote %d of %d, %v", n, len(b), err)
		}
	})
}
