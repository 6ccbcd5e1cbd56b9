// Package longlog writes logs of long jobs, whose last lines are about a failure, for
// the benchmark of gorun explain.
//
// Invariant: logs of one kind and size are equal.
package longlog

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Kind is what fills a log.
type Kind struct {
	Name string
	part func(i int) string // the i-th part
}

// Cause is the id of the finding that the last lines of each log have.
const Cause = "D01"

// Kinds returns all kinds: lines as they are, as Docker stores them, a progress bar, and
// errors that a data loader reports and survives.
func Kinds() []Kind {
	return []Kind{
		{"plain lines", plain},
		{"Docker's JSON", func(i int) string {
			line, _ := json.Marshal(map[string]string{"log": plain(i), "stream": "stderr", "time": fmt.Sprintf("2026-11-21T16:%02d:%02d.123456789Z", i/60%60, i%60)})
			return string(line) + "\n"
		}},
		{"a progress bar", func(i int) string {
			return fmt.Sprintf("\r %2d%%|%-10s| %d/10000 [%02d:%02d<09:59, 10.00it/s, loss=2.%04d]", i/100%100, strings.Repeat("#", i/1000%10), i%10000, i/600%60, i/10%60, i%9973)
		}},
		{"errors of a loader", func(i int) string {
			return fmt.Sprintf("[rank%d]: 2026-11-21 12:%02d:%02d ERROR data.py:81 could not decode sample %d of shard %d: bad header\n", i%8, i/60%60, i%60, i, i%977)
		}},
		{"caught tracebacks", func(i int) string {
			return fmt.Sprintf("[rank%d]: Traceback (most recent call last):\n[rank%[1]d]:   File \"/w/data.py\", line 81, in fetch\n[rank%[1]d]:     return self.read(shard)\n[rank%[1]d]: OSError: shard %d\n[rank%[1]d]: skipped a shard\n", i%8, i)
		}},
	}
}

// plain returns the i-th line of a job of eight ranks: mostly steps, some of NCCL's.
func plain(i int) string {
	rank := i % 8
	switch i % 32 {
	case 0:
		return fmt.Sprintf("node%d:42%02d:43%02d [%d] NCCL INFO Channel %02d/0 : %d[%[4]d] -> %d[%d] via P2P/IPC/read\n", i%4, rank, rank, rank, i%24, rank, (rank+1)%8, (rank+1)%8)
	case 1:
		return fmt.Sprintf("[rank%d]: UserWarning: the learning rate scheduler was called before step %d\n", rank, i)
	}
	return fmt.Sprintf("[rank%d]: 2026-11-21 12:%02d:%02d step %d loss 2.%04d lr 3e-4 grad_norm 1.%03d tokens/s %d errors 0\n", rank, i/60%60, i%60, i, i%9973, i%997, 120000+i%4096)
}

// Write writes a log of at least size bytes.
func (k Kind) Write(w io.Writer, size int64) error {
	b := bufio.NewWriterSize(w, 1<<20)
	for i := 0; size > 0; i++ {
		n, err := b.WriteString(k.part(i))
		if err != nil {
			return err
		}
		size -= int64(n)
	}
	b.WriteString("\n" + strings.Repeat("[rank1]: step 123456 loss 2.345\n", 100))
	b.WriteString("node7:42:43 [1] init.cc:904 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1a000\n")
	return b.Flush()
}
