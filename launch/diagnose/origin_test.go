package diagnose

import (
	"strings"
	"testing"
)

// TestPeersHaveHosts shows that a peer that a line names by its address gets the host
// that announced the address.
func TestPeersHaveHosts(t *testing.T) {
	const log = "gpu07:5:5 [0] NCCL INFO Bootstrap : Using eth0:10.1.0.7<0>\n" +
		"gpu03:9:9 [0] NCCL INFO Bootstrap: Using [0]eth0:10.1.0.3<0>\n" +
		"gpu03:9:12 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.1.0.7<41234> failed : Software caused connection abort\n"
	if found := scan(t, "job.log", log); len(found) == 0 || found[0].Peer != "10.1.0.7<41234> on gpu07" || found[0].Host != "gpu03" {
		t.Errorf("got %+v", found)
	}
}

// TestPrefixAloneInTraceback shows that a line with nothing but a logger's prefix does no
// harm within a traceback.
func TestPrefixAloneInTraceback(t *testing.T) {
	const log = "X:Traceback (most recent call last):\nX:\nX:  File \"/w/a.py\", line 1, in f\nX:\nX:ValueError: odd\n"
	if found := scan(t, "job.log", log); len(found) != 1 || found[0].Text != "ValueError: odd (w/a.py:1)" {
		t.Errorf("got %+v", found)
	}
}

// TestMissingModuleNamesTheInterpreter shows that the fix says which interpreter has no
// such module.
func TestMissingModuleNamesTheInterpreter(t *testing.T) {
	const log = "Traceback (most recent call last):\n  File \"/w/a.py\", line 1, in <module>\n    import flash_attn\n" +
		"ModuleNotFoundError: No module named 'flash_attn'\n" +
		"E0330 10:11:12.100000 4242 torch/distributed/elastic/multiprocessing/api.py:826] failed (exitcode: 1) local_rank: 0 (pid: 4250) of binary: /e/bin/python\n"
	if found := scan(t, "job.log", log); len(found) == 0 || found[0].ID != "X-MODULE" || !strings.HasPrefix(found[0].Fix, "the interpreter is /e/bin/python: ") {
		t.Errorf("got %+v", found)
	}
}

// TestTimeLimitOfSeveralHosts shows that the host that a time limit's line names is named
// where it is the only one.
func TestTimeLimitOfSeveralHosts(t *testing.T) {
	const limit = "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2025-01-10T15:27:25 DUE TO TIME LIMIT ***\n"
	tests := []struct{ name, log, want string }{
		{"one host", "step 1 loss 2\n" + limit, "n1"},
		{"other hosts end, too", limit + "srun: error: n2: task 1: Killed\nsrun: error: n1: task 0: Killed\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if found := scan(t, "job.log", tt.log); len(found) == 0 || found[0].ID != "X-TIMELIMIT" || found[0].Host != tt.want {
				t.Errorf("got %+v, want host %q", found, tt.want)
			}
		})
	}
}

// TestHostOfTable shows that the host on which a table of sacct says that the job failed is
// named where nothing else names one.
func TestHostOfTable(t *testing.T) {
	const (
		failure = "FATAL: cannot open /scratch/in.nc: Input/output error\n"
		head    = "JobID             State ExitCode        NodeList \n------------ ---------- -------- --------------- \n"
	)
	tests := []struct{ name, table, want string }{
		{"one host", head + "18822            FAILED      2:0             c02 \n18823         COMPLETED      0:0             c07 \n", "c02"},
		{"two hosts", head + "18822            FAILED      2:0             c02 \n18823            FAILED      2:0             c07 \n", ""},
		{"several hosts in a row", head + "18822            FAILED      2:0         c[02-04] \n", ""},
		{"another column", "JobID           NodeList      State ExitCode \n------------ ---------- -------- --------------- \n18822               c02     FAILED      2:0 \n", "c02"},
		{"aligned to the left", "JobID        NodeList             State ExitCode \n------------ -------------------- ------- -------- \n88120        gpu-a100-17          FAILED      1:0 \n", "gpu-a100-17"},
		{"LSF", "TERM_MEMLIMIT: x\nJob was executed on host(s) <8*cx3-b07>, in queue <long>, as user <s> in cluster <cx3> at Thu\nStarted\n", "cx3-b07"},
		{"LSF on two hosts", "TERM_MEMLIMIT: x\nJob was executed on host(s) <8*cx3-b07>, in queue <long>, as user <s> in cluster <cx3> at Thu\n                            <8*cx3-b08>\nStarted\n", ""},
		{"no column", "JobID             State ExitCode \n------------ ---------- -------- \n18822            FAILED      2:0 \n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if found := scan(t, "job.log", failure+tt.table); len(found) == 0 || found[0].Severity != SeverityCause || found[0].Host != tt.want {
				t.Errorf("got %+v, want host %q", found, tt.want)
			}
		})
	}
}

// TestLongLineKeepsItsEnd shows that the reason at the end of a long line is in the text.
func TestLongLineKeepsItsEnd(t *testing.T) {
	log := "ERROR: mount of " + strings.Repeat("/very/long/path", 300) + " failed: stderr: no monitor answers\n"
	if found := scan(t, "job.log", log); len(found) != 1 || !strings.HasPrefix(found[0].Text, "ERROR: mount of") || !strings.HasSuffix(found[0].Text, "no monitor answers") {
		t.Errorf("got %+v", found)
	}
}

// TestExceptionNamesTheRankOfItsProcess shows that a line of NCCL has the rank that torch's
// exception names, where no other process may have written it.
func TestExceptionNamesTheRankOfItsProcess(t *testing.T) {
	const (
		warn = "c1:1203:1227 [0] misc/socket.cc:480 NCCL WARN socketStartConnect: Connect to 172.17.0.2<38847> failed : Software caused connection abort\n"
		head = "Traceback (most recent call last):\n  File \"/w/train.py\", line 97, in <module>\n"
		own  = head + "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but got error: NCCL error\n"
		end  = "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 1203) of binary: /usr/bin/python\n"
	)
	tests := []struct {
		name, log string
		want      int
	}{
		{"one process", warn + own + end, 1},
		{"another rank", warn + own + strings.Replace(own, "[1]", "[5]", 1) + end, -1},
		{"another process", warn + strings.Replace(warn, "1203", "1204", 1) + own + end, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if found := scan(t, "job.log", tt.log); len(found) == 0 || found[0].ID != "I02" || found[0].Rank != tt.want {
				t.Errorf("got %+v, want rank %d", found, tt.want)
			}
		})
	}
}

// TestMessageOfGRPCIsNoLaterOutput shows that the fields of an error of gRPC are no sign
// that the program went on.
func TestMessageOfGRPCIsNoLaterOutput(t *testing.T) {
	const log = "Traceback (most recent call last):\n  File \"/w/a.py\", line 8, in <module>\n" +
		"grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n" +
		"\tdetails = \"failed to connect to all addresses; last error: UNKNOWN: ipv4:10.1.2.3:2379: Connection refused\"\n>\n"
	if found := scan(t, "job.log", log); len(found) != 1 || found[0].ID != "X-CONNECT" || found[0].Doubtful || found[0].Peer != "10.1.2.3:2379" {
		t.Errorf("got %+v", found)
	}
}
