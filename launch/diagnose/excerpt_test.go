package diagnose

import (
	"slices"
	"testing"
)

// TestContext checks which lines beside its evidence a finding quotes.
func TestContext(t *testing.T) {
	for name, tt := range map[string]struct {
		log  string
		want []string
	}{
		"before and after": {
			"step 1 loss 2.0\nssh: Connection closed\n-----\nsrun: error: gpu1: task 3: Out Of Memory\nsee the limit\n\nstep 2 loss 1.0\nlater\n",
			[]string{"ssh: Connection closed", "see the limit"},
		},
		"of the same writer": {
			"[rank1]: cannot lock the file\n[rank0]: is unrelated\n[rank1]: Segmentation fault\n[rank0]: goes on\n[rank1]: bye\n",
			[]string{"cannot lock the file", "bye"},
		},
		"docker's JSON": {
			`{"log":"the reason is here\n","time":"2026-01-02T03:04:05Z"}` + "\n" + `{"log":"Segmentation fault\n","time":"2026-01-02T03:04:05Z"}` + "\n",
			[]string{"the reason is here"},
		},
		"a message of several lines": {
			"Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    f()\nValueError: 1 error for Config\n  size\n    must be even\nbye\n",
			[]string{"size", "must be even"},
		},
		"no frames": {
			"Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    f()\nMemoryError\n",
			nil,
		},
		"not the line itself": {
			"F1124 10:00:00.1 42 trainer.cc:99] the table is corrupted\n*** Check failure stack trace: ***\n    @ 0x7f12 (unknown)\n",
			nil,
		},
		"last words": {
			"the lock of fd 4 has errno 26\noffset 0\napplication called MPI_Abort(MPI_COMM_WORLD, 1) - process 0\n",
			[]string{"the lock of fd 4 has errno 26"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := scan(t, oneFile(tt.log)...)
			if len(found) == 0 || !slices.Equal(found[0].Context, tt.want) {
				t.Errorf("got %+v, want %q", found, tt.want)
			}
		})
	}
}
