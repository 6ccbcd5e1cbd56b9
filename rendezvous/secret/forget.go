package secret

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Forget overwrites GORUN_SECRET in the memory that other processes of the same user
// see as /proc/PID/environ. os.Getenv still returns the value.
func Forget() error {
	if _, set := os.LookupEnv(Env); !set {
		return nil
	}
	fail := func(err error) error {
		return fmt.Errorf("cannot hide %s from /proc/%d/environ: %w", Env, os.Getpid(), err)
	}
	start, err := environStart()
	if err != nil {
		return fail(err)
	}
	text, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return fail(err)
	}
	memory, err := os.OpenFile("/proc/self/mem", os.O_WRONLY, 0)
	if err != nil {
		return fail(err)
	}
	defer memory.Close()
	at := start
	for entry := range bytes.SplitAfterSeq(text, []byte{0}) {
		if head := len(Env) + len("="); bytes.HasPrefix(entry, []byte(Env+"=")) {
			if _, err := memory.WriteAt(make([]byte, len(bytes.TrimRight(entry[head:], "\x00"))), at+int64(head)); err != nil {
				return fail(err)
			}
		}
		at += int64(len(entry))
	}
	return nil
}

// environStart returns the address of this process's environment (proc(5): env_start,
// the 50th field of stat). The second field may contain blanks.
func environStart() (int64, error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	fields := strings.Fields(rest) // from the third
	const envStart = 50 - 3
	if len(fields) <= envStart {
		return 0, fmt.Errorf("/proc/self/stat has %d fields", len(fields)+2)
	}
	return strconv.ParseInt(fields[envStart], 10, 64)
}
