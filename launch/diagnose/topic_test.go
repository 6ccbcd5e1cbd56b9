package diagnose

import (
	"strings"
	"testing"
)

// TestTopics shows what messages of programs are about, and that others are about nothing
// that a topic names.
func TestTopics(t *testing.T) {
	topics := newMatcher().topics
	for message, want := range map[string]string{
		"HTTPError: 401 Client Error: Unauthorized for url: http://hub/api":                 "a server refused",
		"OSError: [Errno 98] Address already in use":                                        "a port is in use",
		"socket.gaierror: [Errno -2] Name or service not known":                             "a host's name",
		"OSError: [Errno 28] No space left on device":                                       "a disk is full",
		"RuntimeError: can't start new thread":                                              "the worker could not start a thread",
		"OSError: [Errno 24] Too many open files: '/data/7.tar'":                            "the limit of open files",
		"RuntimeError: The size of tensor a (4) must match the size of tensor b (3)":        "two sizes do not fit",
		"RuntimeError: Error(s) in loading state_dict for Net: size mismatch for fc.weight": "a checkpoint does not fit",
		"TypeError: __init__() got an unexpected keyword argument 'tp'":                     "the versions of two programs",
		"KeyError: 'MASTER_ADDR'":                                                           "a variable of the environment",
		"ValueError: loss is NaN":                                                           "the numbers of the training",
		"KeyError: 'label'":                                                                 "",
		"RuntimeError: invalid argument":                                                    "",
		"IndexError: list index out of range":                                               "",
		"RuntimeError: Watchdog caught collective operation timeout: ran for 600000 ms":     "",
		"AssertionError: the token count differs between the two passes":                    "",
		"RuntimeError: expected scalar type Float but found Half":                           "",
	} {
		got := ""
		if topic := topics.of(message); topic != nil {
			got = topic.Cause
		}
		if want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%q: want %q, got %q", message, want, got)
		}
	}
}

// TestSeenBy shows that the rank or host is not blamed which reports a fault of the whole
// job, and that a pod is called one.
func TestSeenBy(t *testing.T) {
	for message, blames := range map[string]bool{
		"IndexError: list index out of range":                                               true,
		"RuntimeError: Error(s) in loading state_dict for Net: size mismatch for fc.weight": false,
	} {
		log := "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/w/t.py\", line 3, in <module>\n[rank1]:     f()\n[rank1]: " + message + "\n"
		found := scan(t, oneFile(log)...)
		if len(found) == 0 || found[0].Rank != 1 || found[0].blamesRanks() != blames {
			t.Errorf("%s: want rank 1, blamed %v, got %+v", message, blames, found)
		}
	}
	for log, label := range map[string]string{
		"gpu-3 kernel: nvme0n1: I/O error\nhostname: gpu-3\nFATAL: write failed: No space left on device\n":                                                    "blame: host gpu-3",
		"[mg-31:7232:0] ib_mlx5_dv.c:161  UCX  ERROR   devx_obj_create(QP) failed\n[mg-32:5188:0] ib_mlx5_dv.c:161  UCX  ERROR   devx_obj_create(QP) failed\n": "blame: host mg-31 and 1 more",
		"w03:4940:4951 [0] NCCL INFO ncclCommInitRank comm 0x55d9 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 61000 commId 0x9f03 - Init START\nw01:5771:5785 [0] ibvwrap.c:160 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out\nw03:4940:4953 [0] ibvwrap.c:160 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out\n": "blame: host w01 and 1 more",
		"hostname: gpu-3\nmount.nfs: Connection timed out for fs1:/data\n": "blame: host gpu-3",
		"hostname: gpu-3\nTraceback (most recent call last):\n  File \"/opt/torch/distributed/elastic/rendezvous/dynamic_rendezvous.py\", line 638, in run\n    raise RendezvousTimeoutError()\ntorch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n": "seen by: host gpu-3",
		"Job started on node gpu-3\nTraceback (most recent call last):\n  File \"/w/t.py\", line 3, in <module>\n    f()\nIndexError: list index out of range\n":                                                                                                   "seen by: host gpu-3",
		"Name:         job-0\nNamespace:    train\nEvents:\n  Warning  FailedScheduling  40s  default-scheduler  0/2 nodes are available: 2 Insufficient nvidia.com/gpu.\n":                                                                                        "seen by: pod job-0",
	} {
		var text strings.Builder
		if err := WriteText(&text, scan(t, "job.log", log)); err != nil || !strings.Contains(text.String(), label) {
			t.Errorf("want %q of %q, got\n%s", label, log, &text)
		}
	}
}
