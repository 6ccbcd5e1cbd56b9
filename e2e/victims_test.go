package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/porttest"
)

// dropPeers is a worker whose rank 2 closes its connections to the others and fails
// later, as a process that Python ends does. The others fail at once, with EOFError or
// BrokenPipeError.
const dropPeers = `import os, sys, time
from multiprocessing.connection import Client, Listener
rank, size, at = int(os.environ['RANK']), int(os.environ['WORLD_SIZE']), ('127.0.0.1', int(sys.argv[1]))
if rank == 2:
    listener = Listener(at, backlog=size)
    peers = [listener.accept() for _ in range(size - 1)]
    for p in peers: p.send('go')
    for p in peers: p.close()
    time.sleep(0.1) # sleep: the others fail meanwhile
    sys.exit(7)
deadline = time.time() + 30
while True:
    try:
        peer = Client(at)
        break
    except ConnectionRefusedError:
        if time.time() > deadline: raise
        time.sleep(0.01) # sleep: between two tries
peer.recv()
while rank % 2: peer.recv()
while True: peer.send(b'x' * 1000)
`

// TestVictimIsNotTheCause checks that the cause is the worker that left the others, and
// not those that lost it and ended before it, on one node and over two.
func TestVictimIsNotTheCause(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 2} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "--local-nodes", fmt.Sprint(nodes), "--nproc-per-node", fmt.Sprint(4/nodes))
			j.env = []string{"PYTHON_EXEC=" + python(t, "multiprocessing.connection")}
			a := j.run("gorun", j.write("drop.py", dropPeers, 0o600), fmt.Sprint(porttest.Free(t, "")))
			j.wantExit(longWait, 7, a)
			j.wantCause([]*agent{a}, "rank 2", "exited with code 7")
			if !strings.Contains(a.err.String(), "Root Cause (first observed failure):\n[2]:") {
				t.Error("the report has no root cause at its place")
			}
		})
	}
}
