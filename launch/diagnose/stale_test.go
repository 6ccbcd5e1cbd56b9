package diagnose

import "testing"

// TestStaleKernelLines shows that a line of the kernel explains what follows soon, and
// what it brings about, but no failure of its own long after it.
func TestStaleKernelLines(t *testing.T) {
	const xid = "Aug  3 08:00:00 gpu-3 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
	failure := func(clock, class string) string {
		return "[rank3]: 2026-08-03 " + clock + " step 10\n[rank3]: Traceback (most recent call last):\n[rank3]:   File \"/w/train.py\", line 40, in <module>\n[rank3]:     x = f()\n[rank3]: " + class + "\nE0803 12:00:00.000000 812 api.py:874] failed (exitcode: 1) local_rank: 3 (pid: 4125) of binary: python\n"
	}
	for name, c := range map[string]struct{ log, id string }{
		"soon":                    {xid + failure("08:10:00", "KeyError: 'lr'"), "G01"},
		"long before":             {xid + failure("11:00:00", "KeyError: 'lr'"), "X-PYEXC"},
		"before an error of CUDA": {xid + failure("11:00:00", "RuntimeError: CUDA error: unspecified launch failure"), "G01"},
		"without another cause":   {xid + "2026-08-03 11:00:00 step 10\n[rank0]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1333, remote process exited or there was a network error\n", "G01"},
	} {
		t.Run(name, func(t *testing.T) {
			if found := scan(t, "job.log", c.log); len(found) == 0 || found[0].ID != c.id {
				t.Errorf("got %+v, want %s", found[:min(len(found), 1)], c.id)
			}
		})
	}
}
