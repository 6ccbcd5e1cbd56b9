package diagnose

import (
	"strings"
	"testing"
)

// TestStackOfACrash shows which frame the line of a crash gets.
func TestStackOfACrash(t *testing.T) {
	const crash = "[n1:77:0:77] Caught signal 11 (Segmentation fault: address not mapped to object at address (nil))\n"
	for name, tt := range map[string]struct{ log, end string }{
		"UCX":            {crash + "==== backtrace (tid:77) ====\n 0 0x0000000000012cf0 __funlockfile()  :0\n 1 0x0000000000585e92 NS::Pair::compute()  pair.cpp:0\n 2 0x00 NS::run()  :0\n", ") in NS::Pair::compute"},
		"Open MPI":       {"[n1:00077] Signal: Segmentation fault (11)\n[n1:00077] [ 0] /lib64/libpthread.so.0(+0x12cf0)[0x7fad]\n[n1:00077] [ 1] ./lmp(_ZN2NS4Pair7computeEv+0x5d)[0x7fad]\n", " in _ZN2NS4Pair7computeEv (lmp)"},
		"Fortran":        {"Program received signal SIGSEGV: Segmentation fault - invalid memory reference.\nBacktrace for this error:\n#0  0x7f2 in raise\n#1  0x4012f3 in solve_\n", " in solve_"},
		"faulthandler":   {"Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f2 (most recent call first):\n  File \"/w/model/layer.py\", line 31 in forward\n  File \"/w/train.py\", line 9 in <module>\n", " in forward (layer.py)"},
		"of two threads": {"Fatal Python error: Segmentation fault\n\nThread 0x00007f1 (most recent call first):\n  File \"/usr/lib/python3.11/threading.py\", line 327 in wait\n\nCurrent thread 0x00007f2 (most recent call first):\n  File \"/w/model/layer.py\", line 31 in forward\n", " in forward (layer.py)"},
		"no stack":       {crash + "step 4 loss 2.0\n", "(nil))"},
		"only a runtime": {crash + " 0 0x0000000000012cf0 __funlockfile()  :0\n 1 0x00 ucs_handle_error()  :0\n", "(nil))"},
		"another rank's": {"[rank1]: Fatal Python error: Segmentation fault\n[rank2]:   File \"/w/layer.py\", line 31 in forward\n", "Segmentation fault"},
	} {
		t.Run(name, func(t *testing.T) {
			found := scan(t, oneFile(tt.log)...)
			if len(found) == 0 || found[0].ID != "X-SEGV" || !strings.HasSuffix(found[0].Text, tt.end) {
				t.Errorf("got %+v, want X-SEGV with %q at the end", found, tt.end)
			}
		})
	}
}
