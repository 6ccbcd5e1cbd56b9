// Package slurm asks Slurm how long a job may take to end. Its variables do not say
// that.
//
// Invariants: Slurm is asked by a child process with a deadline, once a node, and
// nodes of a large job ask one after the other. The answer is bounded and parsed by a
// function that is fuzzed.
package slurm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/launch/process"
)

const (
	// DefaultKillWait is the time between SIGTERM and SIGKILL where slurm.conf does
	// not set it.
	DefaultKillWait = 30 * time.Second
	// maxKillWait is the largest KillWait that Slurm takes (65533 seconds).
	maxKillWait = 65533 * time.Second
	// askTimeout bounds scontrol, which waits for a controller that does not answer.
	askTimeout = 5 * time.Second
	// askDelay is the time after which a running job asks. A short job never does.
	askDelay = time.Second
	// askEvery is the mean time between the questions of a job's nodes.
	askEvery = 10 * time.Millisecond
)

// Grace returns how long workers may take to end after SIGTERM. The rest of KillWait
// is for the agents, which then kill them and print the report.
func Grace(killWait time.Duration) time.Duration {
	return killWait - min(3*time.Second, killWait/3)
}

// AskDelay returns when one of a job's nodes asks.
func AskDelay(nodes int) time.Duration {
	return askDelay + time.Duration(rand.Int64N(int64(max(1, nodes))*int64(askEvery)))
}

// AskKillWait asks Slurm for its KillWait.
func AskKillWait(ctx context.Context, table *process.Table, env []string) (time.Duration, error) {
	path, err := exec.LookPath("scontrol")
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	out, code, err := table.Run(ctx, path, []string{"scontrol", "show", "config"}, env, "/")
	if err != nil {
		return 0, fmt.Errorf("scontrol show config: %w", err)
	}
	if code != 0 {
		return 0, fmt.Errorf("scontrol show config: exit code %d", code)
	}
	return parseKillWait(out)
}

// parseKillWait finds KillWait in the output of scontrol show config.
func parseKillWait(config []byte) (time.Duration, error) {
	for lines := bufio.NewScanner(bytes.NewReader(config)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "=")
		if strings.TrimSpace(name) != "KillWait" {
			continue
		}
		number, unit, _ := strings.Cut(strings.TrimSpace(value), " ")
		n, err := strconv.ParseUint(number, 10, 16)
		wait := time.Duration(n) * time.Second
		if err != nil || unit != "sec" || wait > maxKillWait {
			return 0, fmt.Errorf("scontrol show config: KillWait is %.40q", strings.TrimSpace(value))
		}
		return wait, nil
	}
	return 0, errors.New("scontrol show config: no KillWait")
}
