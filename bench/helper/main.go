// Command helper does the same as csrc/helper.c, for machines without a C compiler:
//
//	helper worker FILE     appends "<monotonic ns> <pid>" to FILE, then waits
//	helper spawn N CMD...  starts N copies of CMD and awaits them: the floor
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "helper:", err)
		code = 1
	}
	os.Exit(code)
}

func run(args []string) (int, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, err
	}
	switch {
	case len(args) == 2 && args[0] == "worker":
		return worker(args[1], now.Nano())
	case len(args) >= 3 && args[0] == "spawn":
		return 0, spawn(args[1], args[2:])
	}
	return 0, errors.New("usage: helper worker FILE, or helper spawn N CMD")
}

// worker waits until SIGUSR1 ends it with code 3, or another signal ends it as usual.
func worker(file string, begin int64) (int, error) {
	die := make(chan os.Signal, 1)
	signal.Notify(die, unix.SIGUSR1)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return 0, err
	}
	if _, err := fmt.Fprintf(f, "%d %d\n", begin, os.Getpid()); err != nil {
		return 0, err
	}
	select {
	case <-die:
		return 3, nil
	case <-time.After(5 * time.Minute): // never outlive the benchmark
		return 1, nil
	}
}

func spawn(count string, cmd []string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	var started []*exec.Cmd
	for range n {
		c := exec.Command(cmd[0], cmd[1:]...)
		if err := c.Start(); err != nil {
			return err
		}
		started = append(started, c)
	}
	for _, c := range started {
		if err := c.Wait(); err != nil {
			return err
		}
	}
	return nil
}
