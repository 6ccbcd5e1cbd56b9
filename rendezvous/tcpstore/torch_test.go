package tcpstore

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// torchPython returns a Python that has torch.distributed, and torch's version.
func torchPython(t *testing.T) (python, version string) {
	t.Helper()
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		out, err := exec.CommandContext(ctx, p, "-c",
			"import torch, torch.distributed as d; assert d.is_available(); print(torch.__version__)").Output()
		cancel()
		if err == nil {
			return p, strings.TrimSpace(string(out))
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("no Python with torch.distributed was found; CI must test against the real client")
	}
	t.Skip("no Python with torch.distributed was found: nothing is tested against the real client")
	return "", ""
}

// runTorch runs script and fails the test if it does not print "ok" at the end.
func runTorch(t *testing.T, python, script string, env ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-c", script)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil || !strings.HasSuffix(out.String(), "ok\n") {
		t.Errorf("%v: %s", err, out.String())
	}
}

const torchClient = `
import os, time
from datetime import timedelta
import torch.distributed as dist
rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
s = dist.TCPStore(os.environ["ADDR"], int(os.environ["PORT"]), n, False,
                  timedelta(seconds=60), wait_for_workers=os.environ["WAIT"] == "1")

def meet(name):
    if s.add("meet/" + name, 1) == n:
        s.set("met/" + name, "")
    s.wait(["met/" + name])

def same(got, want):
    assert got == want, (got, want)

# one key each, all read by all
s.set("k%d" % rank, "value %d" % rank)
s.wait(["k%d" % r for r in range(n)], timedelta(seconds=60))
for r in range(n):
    same(s.get("k%d" % r), b"value %d" % r)
s.set("long%d" % rank, "x" * 3000000)
same(len(s.get("long%d" % ((rank + 1) % n))), 3000000)
meet("set")

for _ in range(100):
    s.add("sum", rank + 1)
meet("add")
same(s.get("sum"), str(100 * n * (n + 1) // 2).encode())
same(s.add("sum", 0), 100 * n * (n + 1) // 2)

# exactly one wins
won = s.compare_set("winner", "", str(rank))
meet("compare")
same(s.get("winner"), won)
same(s.compare_set("absent%d" % rank, "expected", "new"), b"expected")
same(s.compare_set("winner", "nobody", "new"), won)
meet("compared")

if rank == 0:
    s.add("meet/deleted", 0)  # the others' next step adds no key
    before = s.num_keys()
    s.set("gone", "1")
    same(s.num_keys(), before + 1)
    same(s.delete_key("gone"), True)
    same(s.delete_key("gone"), False)
    same(s.num_keys(), before)
meet("deleted")

# a wait that times out leaves the connection in order
try:
    s.wait(["never%d" % rank], timedelta(milliseconds=200))
    raise SystemExit("the wait should have timed out")
except RuntimeError:
    pass
s.set("never%d" % rank, "late")
same(s.get("never%d" % rank), b"late")
same(s.add("after%d" % rank, 3), 3)

if hasattr(s, "multi_get"):  # torch 2.0
    keys = ["m%d/%d" % (rank, i) for i in range(50)]
    same(s.check(keys), False)
    s.multi_set(keys, [k + "!" for k in keys])
    same(s.check(keys), True)
    same(s.multi_get(keys), [k.encode() + b"!" for k in keys])
    s.append("text", "abc")
    meet("append")
    same(s.get("text"), b"abc" * n)

if hasattr(s, "queue_push"):  # torch 2.8
    same(s.queue_len("q"), 0)
    meet("queue")
    if rank == 0:
        for r in range(1, n):
            s.queue_push("q", "job")
    else:
        same(s.queue_pop("q"), b"job")
    meet("popped")
    same(s.queue_len("q"), 0)
    try:
        s.queue_pop("q", False)
        raise SystemExit("the queue should be empty")
    except dist.QueueEmptyError:
        pass
print("ok")
`

func TestTorchClients(t *testing.T) {
	python, version := torchPython(t)
	t.Logf("torch %s", version)
	for _, wait := range []string{"0", "1"} {
		t.Run("wait_for_workers="+wait, func(t *testing.T) {
			s, addr := start(t, Options{})
			host, port, _ := net.SplitHostPort(addr)
			var wg sync.WaitGroup
			for _, rank := range []string{"0", "1", "2"} {
				wg.Go(func() {
					runTorch(t, python, torchClient, "RANK="+rank, "WORLD_SIZE=3", "ADDR="+host, "PORT="+port, "WAIT="+wait)
				})
			}
			wg.Wait()
			if st := s.Stats(); st.Rejected != 0 {
				t.Errorf("%+v", st)
			}
			s.store.mu.Lock()
			defer s.store.mu.Unlock()
			if got := string(s.store.values["init/"]); wait == "1" && got != "3" || wait == "0" && got != "" {
				t.Errorf("init/ is %q", got)
			}
		})
	}
}

const torchThousand = `
import os, resource, threading
from datetime import timedelta
import torch.distributed as dist
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
threading.stack_size(256 * 1024)
n, failures, hour = int(os.environ["CLIENTS"]), [], timedelta(hours=1)

def client(i):
    try:
        s = dist.TCPStore(os.environ["ADDR"], int(os.environ["PORT"]), n, False, hour, wait_for_workers=False)
        s.set("k%d" % i, "value %d" % i)
        s.add("came", 1)
        s.wait(["go"], hour)
        other = (i + 1) % n
        assert s.get("k%d" % other) == b"value %d" % other
        assert s.add("came", 0) == n
    except Exception as e:
        failures.append((i, e))

threads = [threading.Thread(target=client, args=(i,)) for i in range(n)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert not failures, failures[:3]
print("ok")
`

// TestTorchThousandClients checks that a thousand of torch's clients meet: all wait at
// once, and one set ends the waits.
func TestTorchThousandClients(t *testing.T) {
	python, version := torchPython(t)
	t.Logf("torch %s", version)
	clients := 1000
	if testing.Short() {
		clients = 100
	}
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		t.Fatal(err)
	}
	if most := int(min(lim.Max, 1<<20)/4) - 50; clients > most { // torch before 2.1 opens two connections and a pipe each
		t.Logf("only %d clients: the hard limit of open files is %d", most, lim.Max)
		clients = most
	}
	s, addr := start(t, Options{})
	host, port, _ := net.SplitHostPort(addr)
	var wg sync.WaitGroup
	wg.Go(func() {
		runTorch(t, python, torchThousand, fmt.Sprint("CLIENTS=", clients), "ADDR="+host, "PORT="+port)
	})
	awaitWaiting(t, s, clients)
	prefix := "" // of torch's keys; versions differ
	s.store.mu.Lock()
	for key, value := range s.store.values {
		if before, found := strings.CutSuffix(key, "came"); found && string(value) == fmt.Sprint(clients) {
			prefix = before
		}
	}
	s.store.mu.Unlock()
	dialModern(t, addr).call(append(frame(1, prefix+"go", "now"), frame(3, prefix+"go")...), encode("now"))
	wg.Wait()
	if st := s.Stats(); st.Rejected != 0 || st.Waiting != 0 {
		t.Errorf("%+v", st)
	}
}

const torchAllReduce = `
import os, torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="env://")
r, n = dist.get_rank(), dist.get_world_size()
x = torch.full((5,), float(r + 1))
dist.all_reduce(x)
assert x.tolist() == [n * (n + 1) / 2] * 5, x
objs = [None] * n
dist.all_gather_object(objs, {"rank": r})
assert objs == [{"rank": i} for i in range(n)], objs
dist.barrier()
dist.destroy_process_group()
print("ok")
`

func TestTorchProcessGroup(t *testing.T) {
	python, version := torchPython(t)
	t.Logf("torch %s", version)
	s, addr := start(t, Options{})
	host, port, _ := net.SplitHostPort(addr)
	env := []string{
		"WORLD_SIZE=2", "MASTER_ADDR=" + host, "MASTER_PORT=" + port, "GLOO_SOCKET_IFNAME=lo",
		"TORCHELASTIC_USE_AGENT_STORE=True", "TORCHELASTIC_RESTART_COUNT=0", "OMP_NUM_THREADS=1",
	}
	var wg sync.WaitGroup
	wg.Go(func() { runTorch(t, python, torchAllReduce, append(env, "RANK=0")...) })
	// Stats shows that rank 0 waits for rank 1.
	until(t, "rank 0 to wait", func() bool { return s.Stats().Waiting == 1 })
	for _, c := range s.Clients() {
		if c.Requests > 0 {
			t.Logf("rank 0 is at %v, pid %d, waits for %q", c.Remote, c.PID, c.Waiting)
		}
	}
	wg.Go(func() { runTorch(t, python, torchAllReduce, append(env, "RANK=1")...) })
	wg.Wait()
	if st := s.Stats(); st.Rejected != 0 || st.Keys == 0 {
		t.Errorf("%+v", st)
	}
}
