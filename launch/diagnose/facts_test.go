package diagnose

import (
	"fmt"
	"strings"
	"testing"
)

// TestFacts shows how facts in other lines, or in other parts of the line, make a root cause
// more precise: its meaning, and whom it blames.
func TestFacts(t *testing.T) {
	const (
		mismatch  = "a:1:2 [0] bootstrap.cc:345 NCCL WARN Bootstrap Root : mismatch in info from procs, nranks 4 vs 4\n"
		versionA  = "a1:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n"
		modifyQP  = "c3:1:2 [0] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out errno 110\n"
		noRoute   = "b2:1:2 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 192.168.122.1<52822> failed : No route to host\n"
		listening = "b2:1:1 [0] NCCL INFO Bootstrap : Using em4:10.0.0.2<0>\n"
		outOf     = "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 2 has a total capacity of 23.65 GiB of which 200.00 MiB is free. "
		xid       = "[1843302.308154] NVRM: Xid (PCI:0000:44:00): 79, pid='<unknown>', GPU has fallen off the bus.\n"
		differ    = "RuntimeError: Detected mismatch between collectives on ranks. "
		ssh       = "ssh: Could not resolve hostname w-3.svc: Name or service not known\n"
	)
	for name, tt := range map[string]struct{ log, meaning, blamed string }{
		"versions differ":                {versionA + strings.ReplaceAll(versionA, "a1:", "b2:") + "c3:1:1 [0] NCCL INFO NCCL version 2.27.5+cuda12.9\n" + mismatch, "ranks loaded different versions of NCCL (2.27.5 on c3; 2.28.9 on a1, b2)", "host c3"},
		"two versions, two hosts":        {versionA + "c3:1:1 [0] NCCL INFO NCCL version 2.27.5+cuda12.9\n" + mismatch, "ranks loaded different versions of NCCL (2.27.5 on c3; 2.28.9 on a1)", "host a"},
		"the same version":               {versionA + strings.ReplaceAll(versionA, "a1:", "b2:") + mismatch, "ranks have different WORLD_SIZE, or different versions of NCCL", "host a"},
		"a variable differs":             {setsIndex("a1", "0") + setsIndex("b2", "3") + setsIndex("c3", "3") + modifyQP, "NCCL_IB_GID_INDEX is 0 on a1; 3 on b2, c3: ", "host a1"},
		"a variable of each node":        {strings.ReplaceAll(setsIndex("a1", "0")+setsIndex("b2", "3")+setsIndex("c3", "3"), "IB_GID_INDEX", "HOSTID") + modifyQP, "adapters of different rails", "host c3"},
		"two variables on two hosts":     {setsIndex("a1", "0") + setsIndex("b2", "3") + setsIndex("c3", "3") + strings.ReplaceAll(setsIndex("a1", "2")+setsIndex("b2", "2")+setsIndex("c3", "1"), "GID_INDEX", "SL") + modifyQP, "NCCL_IB_GID_INDEX is 0 on a1; 3 on b2, c3, NCCL_IB_SL is 1 on c3; 2 on a1, b2: ", "host c3"},
		"one of two hosts unnamed":       {"NCCL INFO NCCL_IB_GID_INDEX set by environment to 3.\n" + setsIndex("a1", "3") + setsIndex("c3", "0") + modifyQP, "NCCL_IB_GID_INDEX is 0 on c3; 3 on a1: ", "host c3"},
		"a line without a host":          {"NCCL INFO NCCL_IB_GID_INDEX set by environment to 1.\n" + setsIndex("a1", "3") + setsIndex("c3", "3") + modifyQP, "adapters of different rails", "host c3"},
		"a variable is the same":         {setsIndex("a1", "3") + setsIndex("c3", "3") + modifyQP, "adapters of different rails", "host c3"},
		"a bridge was announced":         {"a1:1:1 [0] NCCL INFO Bootstrap : Using virbr0:192.168.122.1<0>\n" + listening + noRoute, "a1 announced the address of its interface virbr0, which other nodes cannot reach; b2 uses em4", "host a1"},
		"a bridge of each node":          {"a1:1:1 [0] NCCL INFO Bootstrap : Using docker0:192.168.122.1<0>\nc3:1:1 [0] NCCL INFO Bootstrap : Using docker0:192.168.122.1<0>\n" + listening + noRoute, "a peer announced the address of its interface docker0", "host b2"},
		"its own bridge":                 {"b2:1:1 [0] NCCL INFO Bootstrap : Using nodelocaldns:192.168.122.1<0>\n" + noRoute, "NCCL chose the interface nodelocaldns, whose address each node has for itself", "host b2 (peer 192.168.122.1<52822> on b2)"},
		"a host whose memory was full":   {"CPU Virtual Memory:  used = 349.11 GB, percent = 96.2%\n[rank0]: slurmstepd: error: Detected 1 oom_kill event in StepId=1.0.\n", "(used = 349.11 GB, percent = 96.2%)", "rank 0"},
		"the endpoint of the rendezvous": {"  rdzv_endpoint    : 10.28.1.16\nRuntimeError: connect() timed out.\n", "this node could not reach the store", "(peer 10.28.1.16)"},
		"another interface":              {"a1:1:1 [0] NCCL INFO Bootstrap : Using em5:192.168.122.1<0>\n" + listening + noRoute, "(a1 announced its interface em5; b2 uses em4)", "host b2 (peer 192.168.122.1<52822> on a1)"},
		"an interface that is not there": {"a1:1:1 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth7\na1:1:1 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found\n", "no interface matches NCCL_SOCKET_IFNAME (eth7),", "host a1"},
		"another process on the GPU":     {outOf + "Process 77 has 22.91 GiB memory in use. Including non-PyTorch memory, this process has 716.00 MiB memory in use.\n", "other processes fill the GPU: process 77 has 22.91 GiB, the worker itself 716.00 MiB", "rank 2"},
		"mostly its own memory":          {outOf + "Process 77 has 1.91 GiB memory in use. Including non-PyTorch memory, this process has 20.00 GiB memory in use.\n", "the worker ran out of GPU memory", "rank 2"},
		"dmesg of a host":                {"==> dmesg-gn14.log <==\n" + xid, "a GPU's hardware failed", "host gn14"},
		"a user's dmesg":                 {"==> /home/user1/dmesg.txt <==\n" + xid, "a GPU's hardware failed", ""},
		"a step's messages":              {"==> messages-epoch3.txt <==\n" + xid, "a GPU's hardware failed", ""},
		"grep of a kernel's log":         {"u@gn14:~$ grep NVRM /var/log/messages\n" + xid, "a GPU's hardware failed", "host gn14"},
		"ssh with a port":                {"login1$ ssh -p 22 gn14 dmesg\n" + xid, "a GPU's hardware failed", "host gn14"},
		"logs of a job":                  {"u@laptop1:~$ kubectl logs job/trainer\n" + xid, "a GPU's hardware failed", ""},
		"host of dmesg":                  {"==> gn14.dmesg <==\n" + xid, "a GPU's hardware failed", "host gn14"},
		"dmesg behind a prompt":          {"u@gn14:~$ sudo dmesg -T | grep NVRM\n" + xid, "a GPU's hardware failed", "host gn14"},
		"dmesg over ssh":                 {"login1$ ssh gn14 'sudo dmesg | tail -5'\n" + xid, "a GPU's hardware failed", "host gn14"},
		"another command":                {"u@login1:~$ srun -N2 ./train\n" + xid, "a GPU's hardware failed", ""},
		"a comment":                      {"# free memory of gn14\n" + xid, "a GPU's hardware failed", ""},
		"a root's prompt":                {"[root@gn14 ~]# dmesg\n" + xid, "a GPU's hardware failed", "host gn14"},
		"the next command":               {"u@gn14:~$ nvidia-smi\nu@gn14:~$ srun -N2 ./train\n" + xid, "a GPU's hardware failed", ""},
		"a rank differs from others":     {"[rank1]: " + differ + "Rank 1 is running collective: A, but Rank 5 is running collective: B\n[rank0]: " + differ + "Rank 0 is running collective: A, but Rank 5 is running collective: B\n", "ranks are in different collectives", "rank 5"},
		"two ranks differ":               {"[rank1]: " + differ + "Rank 1 is running collective: A, but Rank 0 is running collective: B\n[rank0]: " + differ + "Rank 0 is running collective: B, but Rank 1 is running collective: A\n", "ranks are in different collectives", "ranks 0, 1"},
		"a pod is pending":               {"w-2   1/1   Running   0   2m\nw-3   0/1   Pending   0   2m\n" + ssh, "its pod does not run (Pending)", "host w-3.svc"},
		"a pod was pending":              {"w-3   0/1   Pending   0   2m\nw-3   1/1   Running   0   3m\n" + ssh, "the launcher could not resolve the name of a host", "host w-3.svc"},
		"a pod runs":                     {"w-3   1/1   Running   0   2m\n" + ssh, "the launcher could not resolve the name of a host", "host w-3.svc"},
		"the host of the effect":         {"Host key verification failed.\n[mpiexec@n3] check_exit_codes (x.c:117): unable to run bstrap_proxy on n4 (pid 12, exit code 65280)\n", "the launcher could not log in to a host over ssh", "host n4"},
		"ranks that announced nothing":   {"GLOBAL_RANK: 0, MEMBER: 1/4\nGLOBAL_RANK: 1, MEMBER: 2/4\nDistStoreError: Timed out after 1801 seconds waiting for clients. 2/4 clients joined.\n", "in time; no process announced ranks 2, 3", ""},
		"no byte is free":                {"[rank2]: torch.OutOfMemoryError: CUDA out of memory. GPU 0 has a total capacty of 79.15 GiB of which 0 bytes is free. Including non-PyTorch memory, this process has 500.00 MiB memory in use.\n", "other processes fill the GPU: they have 78.66 GiB", "rank 2"},
		"memory that torch cannot see":   {outOf + "Process 4242 has 23.00 GiB memory in use. Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use.\n", "the worker ran out of GPU memory", "rank 2"},
		"less than its own tensors":      {outOf + "Process 77 has 22.91 GiB memory in use. Including non-PyTorch memory, this process has 1.05 GiB memory in use. Of the allocated memory 20.00 GiB is allocated by PyTorch, and 1.00 MiB is reserved.\n", "the worker ran out of GPU memory", "rank 2"},
		"memory that nobody names":       {outOf + "Including non-PyTorch memory, this process has 1.05 GiB memory in use.\n", "other processes fill the GPU: they have 22.4 GiB, the worker itself 1.05 GiB", "rank 2"},
		"an address of another network":  {listening + strings.ReplaceAll(noRoute, "192.168.122.1", "172.16.0.4"), "(b2 itself uses 10.0.0.2 of em4)", "host b2 (peer 172.16.0.4<52822>)"},
		"an address of the same network": {listening + strings.ReplaceAll(noRoute, "192.168.122.1", "10.0.7.4"), "a peer's address cannot be reached", "host b2 (peer 10.0.7.4<52822>)"},
		"the root reports a rank":        {"a1:1:2 [0] bootstrap.cc:131 NCCL WARN Bootstrap Root : rank 1 of 8 ranks has already checked in\n", "two processes have the same RANK", "rank 1"},
		"a node's file":                  {"==> node-1.log <==\nTraceback (most recent call last):\n  File \"t.py\", line 3, in <module>\nOSError: [Errno 28] No space left on device\n", "a disk is full", "host node-1"},
		"an error while it ends":         {"E coordination_service_agent.cc:725] Failed to disconnect from coordination service with status: DEADLINE_EXCEEDED\nTraceback (most recent call last):\n  File \"t.py\", line 3, in <module>\nXlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Timed out task names:\n/job:jax_worker/replica:0/task:1\n", "not all tasks came to the barrier in time", "rank 1"},
		"the dataset's own exception":    {"[rank3]: Traceback (most recent call last):\n[rank3]:   File \"t.py\", line 3, in <module>\n[rank3]: ConnectionError: Caught ConnectionError in DataLoader worker process 8.\n[rank3]: Original Traceback (most recent call last):\n[rank3]:   File \"d.py\", line 5, in get\n[rank3]: socket.gaierror: [Errno -3] Temporary failure in name resolution\n", "a host's name could not be resolved", "rank 3"},
		"two launchers on a node":        {"Traceback (most recent call last):\n  File \"/opt/bin/torchrun\", line 33, in <module>\ntorch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. The server socket has failed to bind to [::]:12211 (errno: 98 - Address already in use).\nsrun: error: n1: task 0: Exited with exit code 1\nsrun: error: n1: task 1: Terminated\n", "Slurm started several tasks on n1, and each task a torchrun", "host n1"},
		"one launcher on each node":      {"Traceback (most recent call last):\n  File \"/opt/bin/torchrun\", line 33, in <module>\ntorch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. The server socket has failed to bind to [::]:12211 (errno: 98 - Address already in use).\nsrun: error: n1: task 0: Exited with exit code 1\nsrun: error: n2: task 1: Terminated\n", "a port is in use, by an old process or another job", "host n1"},
		"an interface of several":        {"a1:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:10.38.10.4<0> [1]eth1:192.168.122.1<0>\n" + listening + noRoute, "(a1 announced its interface eth1; b2 uses em4)", "host b2 (peer 192.168.122.1<52822> on a1)"},
		"four workers, three wait":       {waits(0) + waits(1) + waits(2) + stopped + failed(1) + agentReport(1, 1), "a rank did not enter a collective", "rank 3"},
		"four workers, the first is out": {waits(1) + waits(2) + waits(3) + stopped + failed(1) + agentReport(1, 1), "a rank did not enter a collective", "rank 0"},
		"two agents in one log":          {waits(0) + waits(1) + waits(4) + waits(5) + stopped + strings.ReplaceAll(strings.ReplaceAll(stopped, " 5211 ", " 6300 "), "process 52", "process 63") + failed(1) + agentReport(1, 1), "a rank did not enter a collective", "ranks 2, 3"},
		"workers of three attempts":      {stopped + failed(1) + strings.ReplaceAll(stopped, "process 52", "process 53") + strings.ReplaceAll(failed(1), "5243", "5343") + waits(0) + waits(1) + waits(2) + strings.ReplaceAll(stopped, "process 52", "process 54") + strings.ReplaceAll(failed(1), "5243", "5443") + strings.ReplaceAll(agentReport(1, 1), "5243", "5443"), "a rank did not enter a collective", "rank 3"},
		"four workers of a second node":  {waits(5) + waits(6) + waits(7) + stopped + failed(1) + agentReport(5, 1), "a rank did not enter a collective", "rank 4"},
		"a host that a rank announced":   {"Hostname cn-275, pid 1594, rank 3 / size 4\nHostname cn-220, pid 15, rank 1 / size 4\n[2020-07-14 03:12:41: W horovod/common/stall_inspector.cc:105] One or more tensors were submitted to be reduced by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.\nStalled ops:\nplaceholder_0 [missing ranks: 3]\n", "a rank did not submit a tensor", "rank 3 on cn-275"},
		"a device is no host":            {"Starting rank 1 on cuda:1\nStarted rank 2 on GPU 2\n[rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n", "a GPU's hardware failed", "rank 1"},
		"a host with and without domain": {"Starting rank 1 on node02\nnode02.cluster:200:200 [0] NCCL INFO comm 0x1 rank 1 nranks 2 cudaDev 0 busId 1 commId 0x7 - Init COMPLETE\n[rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n", "a GPU's hardware failed", "rank 1 on node02.cluster"},
		"a socket that is not connected": {"Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\n    s.getpeername()\nOSError: [Errno 107] Transport endpoint is not connected\n", "the worker raised an exception", ""},
		"a mount that is not connected":  {"Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\nOSError: [Errno 107] Transport endpoint is not connected: '/mnt/ceph/a'\n", "a file system failed", ""},
		"a level below an error":         {"[2025-05-16 14:04:38,116] [INFO] [load:184] [PID:8] [RANK:0] Unable to find prepared dataset in x/6dbb\n[rank1]: RuntimeError: wait timeout after 1800000ms, keys: /default_pg/0\n", "was not ready in time", ""},
		"another group's collectives":    {strings.ReplaceAll(waits(0)+waits(1), "[Rank ", "[PG ID 2 PG GUID 2 Rank ") + queuedOnly(2, 12) + queuedOnly(0, 12), "", "rank 2"},
		"the rank furthest behind":       {waits(0) + waits(2) + queuedOnly(1, 799) + queuedOnly(3, 800), "a rank did not enter a collective", "rank 1"},
		"memory of another host":         {"gpu-7: CPU Virtual Memory:  used = 949.11 GB, percent = 91.2%\ngpu-7:1:1 [0] NCCL INFO NCCL version 2.27.5+cuda12.9\ngpu-2:1:1 [0] NCCL INFO NCCL version 2.27.5+cuda12.9\ngpu-2: slurmstepd: error: Detected 1 oom_kill event in StepId=1.0.\n", "of its container or job was used up", "host gpu-2"},
		"two endpoints":                  {"+ torchrun --rdzv_endpoint=10.0.0.1:29500 a.py\n+ torchrun --rdzv_endpoint=10.0.0.2:29500 b.py\nRuntimeError: connect() timed out.\n", "this node could not reach the store", ""},
		"all ranks run out":              {strings.Repeat("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.37 GiB.\n", 2) + failed(0), "the worker ran out of GPU memory", "rank 0"},
		"a rank and its local rank":      {"[default2]:x.cu:1290: f: block: [1,0,0], thread: [6,0,0] Assertion `i < n` failed.\n[default2]:[E ProcessGroupNCCL.cpp:1182] [Rank 6] NCCL watchdog thread terminated with exception: CUDA error: device-side assert triggered\n", "illegal access", "rank 6"},
	} {
		t.Run(name, func(t *testing.T) {
			found := scan(t, oneFile(tt.log)...)
			if len(found) == 0 || !strings.Contains(found[0].Meaning, tt.meaning) || found[0].blamed() != tt.blamed {
				t.Fatalf("got %+v, want %q, blamed %q", found, tt.meaning, tt.blamed)
			}
		})
	}
}

// waits returns the line of torch's watchdog on a rank.
func waits(rank int) string {
	return fmt.Sprintf("[rank%d]:[E626 06:24:44.903881913 ProcessGroupNCCL.cpp:616] [Rank %[1]d] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=9, NumelOut=9, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n", rank)
}

// queuedOnly returns the line of a rank that was told of another rank's time-out.
func queuedOnly(rank, seq int) string {
	return fmt.Sprintf("[rank%d]:[E626 06:24:46.120914551 ProcessGroupNCCL.cpp:2536] [PG ID 0 PG GUID 0(default_pg) Rank %[1]d]  Received a dump signal due to a collective timeout from rank 0 and we will try our best to dump the debug info. Last enqueued NCCL work: %d, last completed NCCL work: %[2]d.\n", rank, seq)
}

// stopped are the lines of an agent of torchrun that stops three workers.
const stopped = "W0626 06:24:46.010000 5211 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 5242 closing signal SIGTERM\n" +
	"W0626 06:24:46.011000 5211 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 5244 closing signal SIGTERM\n" +
	"W0626 06:24:46.011000 5211 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 5245 closing signal SIGTERM\n"

// failed returns the agent's line about the worker of a local rank.
func failed(local int) string {
	return fmt.Sprintf("E0626 06:24:47.230000 5211 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -6) local_rank: %d (pid: 5243) of binary: /opt/bin/python\n", local)
}

// agentReport returns the agent's report about a worker.
func agentReport(rank, local int) string {
	return fmt.Sprintf("Root Cause (first observed failure):\n[0]:\n  time      : 2025-06-26_06:24:46\n  host      : c1\n  rank      : %d (local_rank: %d)\n  exitcode  : -6 (pid: 5243)\n============\n", rank, local)
}

// TestOvercome shows what a job went on after.
func TestOvercome(t *testing.T) {
	const (
		cq     = "[n1:1188443:0]  ib_log.c:246  UCX  ERROR mlx5_0: ibv_create_cq() failed: Cannot allocate memory\n"
		stall  = "[1,0]<stderr>:[2021-10-09 15:36:43.594972: W horovod/common/stall_inspector.cc:105] One or more tensors were submitted to be reduced by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.\n[1,0]<stderr>:Missing ranks:\n[1,0]<stderr>:6: [allreduce.weight]\n"
		killed = "(raylet) [2024-08-25 19:21:02,241 E 11 11] (raylet) node_manager.cc:3064: 12 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: b8, IP: 10.0.0.7)\n"
	)
	steps := func(n int) string { return strings.Repeat("[1,0]<stdout>:[step 100] loss=6.88 throughput=14.1K\n", n) }
	for name, tt := range map[string]struct {
		log   string
		found bool
	}{
		"the shell says 0":          {"$ mpirun -n 2 x\n" + cq + "$ echo $?\n0\n", false},
		"of the next command":       {"$ srun python train.py\nsrun: error: n1: task 0: Exited with exit code 1\n$ echo $?\n1\n$ mpirun -n 2 y\n$ echo $?\n0\n", true},
		"of python's version":       {"$ python --version\n" + cq + "$ echo $?\n0\n", true},
		"steps of the missing rank": {stall + strings.Repeat("[1,6]<stdout>:reading shard for epoch 3 part 2\n", 4), true},
		"other names of steps":      {stall + "[1,0]<stdout>:global_step=1 train_loss=0.3\n[1,0]<stdout>: iteration        5/ 100\n[1,0]<stdout>:eval_loss: 0.2\n", false},
		"of a pipe":                 {"$ mpirun -n 2 x 2>&1 | tee log\n" + cq + "$ echo $?\n0\n", true},
		"of another program":        {"$ mpirun -n 2 x\n" + cq + "$ ls\n$ echo $?\n0\n", true},
		"a script before the job":   {cq + "pre-run exit code: 0\n", true},
		"heartbeats of a stall":     {stall + strings.Repeat("[1,1]<stdout>:INFO heartbeat ok\n", 40), true},
		"the shell says 1":          {"$ mpirun -n 2 x\n" + cq + "$ echo $?\n1\n", true},
		"a number elsewhere":        {"$ mpirun -n 2 x\n" + cq + "$ ls | wc -l\n0\n", true},
		"the ranks came":            {stall + steps(4), false},
		"the ranks did not come":    {steps(4) + stall, true},
		"Ray started tasks again":   {killed + strings.Repeat("Ray objects: 47%|####     | 60/128 [41:20<46:01, 40.6s/it]\n", 3), false},
		"Ray started none":          {killed, true},
		"a task was not restarted":  {killed + "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n", true},
		"the launcher ended with 0": {cq + "torchrun exit code: 0\n", false},
		"the launcher ended with 1": {cq + "torchrun exit code: 1\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			if found := scan(t, oneFile(tt.log)...); len(found) > 0 != tt.found {
				t.Errorf("got %+v, want some: %v", found, tt.found)
			}
		})
	}
}

// TestAttemptBefore shows when the output of a container before its restart is the cause.
func TestAttemptBefore(t *testing.T) {
	const (
		failed = "ssh: Could not resolve hostname w-1: Name or service not known\nORTE was unable to reliably start one or more daemons.\n"
		worked = "step 100 loss 3.14\n"
	)
	for name, tt := range map[string]struct {
		log   string
		found bool
	}{
		"files":                 {"==> master-0-previous.log <==\n" + failed + "==> master-0.log <==\n" + worked, false},
		"commands":              {"$ kubectl logs job/pi --previous\n" + failed + "$ kubectl logs job/pi\n" + worked, false},
		"only the one before":   {"$ kubectl logs job/pi --previous\n" + failed + "$ kubectl get pods\n", true},
		"another pod's":         {"==> a-previous.log <==\n" + failed + "==> b.log <==\n" + worked, true},
		"it failed as before":   {"==> a-previous.log <==\n" + failed + "==> a.log <==\n" + failed, true},
		"another pod's failure": {"==> c.log <==\nTraceback (most recent call last):\n  File \"t.py\", line 3, in <module>\nRuntimeError: CUDA error: an illegal memory access was encountered\n==> a-previous.log <==\n" + failed + "==> a.log <==\n" + worked, true},
		"another file follows":  {"$ kubectl logs w-1 --previous\n" + failed + "$ kubectl logs w-1\n" + failed + "$ cat other.log\n" + worked, true},
		"pipes":                 {"$ kubectl logs w-1 --previous | tail -2\n" + failed + "$ kubectl logs w-1 | tail -3\n" + worked, false},
		"no progress":           {"==> a-previous.log <==\n" + failed + "==> a.log <==\nloading model\n", true},
		"a file of another job": {"==> a.log <==\n" + failed + "==> b.log <==\n" + worked, true},
	} {
		t.Run(name, func(t *testing.T) {
			if found := scan(t, oneFile(tt.log)...); len(found) > 0 != tt.found {
				t.Errorf("got %+v, want some: %v", found, tt.found)
			}
		})
	}
}

// setsIndex returns a line in which a host says that a variable of NCCL is set.
func setsIndex(host, value string) string {
	return host + ":1:1 [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to " + value + ".\n"
}
