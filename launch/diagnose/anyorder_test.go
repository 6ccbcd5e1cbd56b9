package diagnose

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// linesOfRanks returns the output of four ranks of which rank 2 runs out of memory.
func linesOfRanks() [][]string {
	var ranks [][]string
	for r := range 4 {
		lines := []string{fmt.Sprintf("node1:%d:%d [%d] NCCL INFO comm 0x%d rank %d nranks 4 cudaDev %d busId %da000 commId 0xfeed - Init COMPLETE", 4242+r, 4300+r, r, r, r, r, r+1)}
		for i := range 20 {
			lines = append(lines, fmt.Sprintf("step %d loss 2.%d errors 0", i, r))
		}
		if r == 2 {
			lines = append(lines,
				"[rank2]: Traceback (most recent call last):",
				`[rank2]:   File "/home/me/train.py", line 61, in main`,
				"[rank2]:     loss = model(x)",
				"[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
		} else {
			p := fmt.Sprintf("node1:%d:%d [%d] ", 4242+r, 4400+r, r)
			lines = append(lines,
				p+"proxy.cc:1458 NCCL WARN [Service thread] Accept failed Resource temporarily unavailable",
				p+"NCCL INFO misc/socket.cc:826 -> 3",
				p+"misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer node1<42830>",
				fmt.Sprintf("[rank%d]: Traceback (most recent call last):", r),
				fmt.Sprintf(`[rank%d]:   File "/home/me/train.py", line 62, in main`, r),
				fmt.Sprintf("[rank%d]: torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited or there was a network error", r))
		}
		ranks = append(ranks, lines)
	}
	return ranks
}

// linePrefixes add the prefixes of launchers and collectors to line n of rank r.
var linePrefixes = map[string]func(r, n int, line string) string{
	"plain":  func(_, _ int, line string) string { return line },
	"tee":    func(r, _ int, line string) string { return fmt.Sprintf("[default%d]:%s", r, line) },
	"srun":   func(r, _ int, line string) string { return fmt.Sprintf("%d: %s", r, line) },
	"wide":   func(r, _ int, line string) string { return fmt.Sprintf("%3d: %s", r, line) }, // srun of 100 tasks and more
	"mpirun": func(r, _ int, line string) string { return fmt.Sprintf("[1,%d]<stderr>:%s", r, line) },
	"ray":    func(r, _ int, line string) string { return fmt.Sprintf("(Worker pid=%d) %s", 4242+r, line) },
	"vllm": func(r, n int, line string) string {
		return fmt.Sprintf("(VllmWorker rank=%d pid=%d) ERROR 11-21 16:%02d:%02d [worker.py:7] %s", r, 4242+r, n/60, n%60, line)
	},
	"prterun": func(r, _ int, line string) string { return fmt.Sprintf("[prterun-n1-77@1,%d]<stderr>: %s", r, line) },
	"axolotl": func(r, _ int, line string) string {
		return fmt.Sprintf("[ERROR] [PID:%d] [RANK:%d] %s", 4242+r, r, line)
	},
	"pdsh":    func(r, _ int, line string) string { return fmt.Sprintf("worker-%d: %s", r, line) },
	"compose": func(r, _ int, line string) string { return fmt.Sprintf("trainer-%d  | %s", r, line) },
	"kubectl": func(r, n int, line string) string {
		return fmt.Sprintf("[pod/trainer-%d/main] 2026-11-21T16:%02d:%02d.%09dZ %s", r, n/60, n%60, n, line)
	},
	"iso": func(_, n int, line string) string {
		return fmt.Sprintf("2026-11-21 16:%02d:%02d,123 %s", n/60, n%60, line)
	},
	"bracket": func(_, n int, line string) string {
		return fmt.Sprintf("[2026-11-21 16:%02d:%02d] %s", n/60, n%60, line)
	},
	"cri": func(r, n int, line string) string {
		return fmt.Sprintf("2026-11-21T16:%02d:%02d.%09dZ std%s F [default%d]:%s", n/60, n%60, n, []string{"out", "err"}[r%2], r, line)
	},
	"json-file": func(r, n int, line string) string {
		b, _ := json.Marshal(map[string]string{"log": fmt.Sprintf("[default%d]:%s\n", r, line), "stream": "stderr", "time": fmt.Sprintf("2026-11-21T16:%02d:%02d.%09dZ", n/60, n%60, n)})
		return string(b)
	},
	"json-file 2": func(r, n int, line string) string {
		b, _ := json.Marshal(fmt.Sprintf("[rank%d]: %s\r\n", r, line))
		return fmt.Sprintf(`{"log": %s, "stream": "stderr", "time": "2026-11-21T16:%02d:%02d.%09dZ"}`, b, n/60, n%60, n)
	},
	"crlf":   func(_, _ int, line string) string { return line + "\r" },
	"colour": func(_, _ int, line string) string { return "\x1b[31m" + line + "\x1b[0m" },
	"all": func(r, n int, line string) string {
		return fmt.Sprintf("\x1b[1m[pod/t-0/main] 2026-11-21T16:%02d:%02d.5Z 0: [default%d]:%s\x1b[0m\r", n/60, n%60, r, line)
	},
}

// TestRootCauseIsTheSameInAnyOrder shows that the root cause does not depend on
// how the lines of ranks are mixed and prefixed.
func TestRootCauseIsTheSameInAnyOrder(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for name, addPrefix := range linePrefixes {
		for range 20 {
			left := linesOfRanks()
			var log strings.Builder
			for n := 0; ; n++ {
				alive := slices.DeleteFunc([]int{0, 1, 2, 3}, func(r int) bool { return len(left[r]) == 0 })
				if len(alive) == 0 {
					break
				}
				r := alive[rnd.IntN(len(alive))]
				log.WriteString(addPrefix(r, n, left[r][0]) + "\n")
				left[r] = left[r][1:]
				if rnd.IntN(20) == 0 {
					log.WriteString(" 10%|###   | 1/10\r")
				}
			}
			found := scan(t, "job.log", log.String())
			if len(found) == 0 || found[0].ID != "X-CUDAOOM" || found[0].Severity != SeverityCause || !slices.Equal(found[0].Ranks, []int{2}) ||
				!strings.HasSuffix(found[0].Text, "(me/train.py:61)") {
				t.Fatalf("seed %d, %s: got %+v of\n%s", seed, name, found, log.String())
			}
			for _, f := range found[1:] {
				if f.Severity == SeverityCause {
					t.Errorf("seed %d, %s: a second cause: %+v", seed, name, f)
				}
			}
		}
	}
}

// TestSectionsOfFiles shows that the name of a file that tail prints names the writer of
// the lines below it.
func TestSectionsOfFiles(t *testing.T) {
	log := "==> rank0.log <==\nstep 1\n\n==> rank3.log <==\nstep 1\nValueError: bad shape of the batch\n\n==> rank4.log <==\nstep 1\n\n==> launcher.log <==\nexit status 1\n"
	found := scan(t, oneFile(log)...)
	if len(found) == 0 || found[0].Rank != 3 || found[0].Line != 6 {
		t.Errorf("got %+v, want rank 3 and line 6", found)
	}
}
