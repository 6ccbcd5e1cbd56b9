package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/launch"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/rendezvous/secret"
)

// Descriptors of an agent of --local-nodes, after the keeper's lifeline: node 0
// writes the endpoint into the pipe, once for each other node, which read it; and
// a file by which the agents write to the console in turn, with the secret that
// they prove to each other where the user gives none.
const (
	endpointFD     = process.LifelineFD + 1
	turnsFD        = process.LifelineFD + 2
	endpointRecord = 64 // bytes, padded with spaces
	endpointWait   = 10 * time.Second
)

// shareLocal makes what n agents of this machine share; files are an agent's, from
// endpointFD on.
func shareLocal(n int) (files func(index int) []*os.File, err error) {
	if n == 1 {
		return func(int) []*os.File { return nil }, nil
	}
	rd, wr, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	var turns *os.File // nil is /dev/null: without, lines may tear, nothing else
	if fd, err := unix.MemfdCreate("gorun-turns", unix.MFD_CLOEXEC); err == nil {
		turns = os.NewFile(uintptr(fd), "turns")
		if _, err := turns.WriteString(rand.Text()); err != nil {
			return nil, err
		}
	}
	return func(index int) []*os.File {
		if index == 0 {
			return []*os.File{wr, turns}
		}
		return []*os.File{rd, turns}
	}, nil
}

// openTurns opens the file of turns once more: a lock belongs to who has opened
// the file, and what the keeper opened is all agents'. It returns nil without one.
func openTurns() *os.File {
	shared := os.NewFile(turnsFD, "turns")
	defer shared.Close()
	if info, err := shared.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	own, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", turnsFD), os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return own
}

// localSecret is what the agents of this machine have in common, nil without.
func localSecret(turns *os.File) []byte {
	if turns == nil {
		return nil
	}
	text := make([]byte, secret.Max)
	n, _ := turns.ReadAt(text, 0) // without, each agent is on its own
	return text[:n]
}

// localNode places an agent of --local-nodes at 127.0.0.(1+index).
func localNode(index, count int) *launch.LocalNode {
	_ = syscall.SetNonblock(endpointFD, true) // else a read has no deadline
	pipe := os.NewFile(endpointFD, "endpoint")
	turns := openTurns()
	return &launch.LocalNode{
		Index:  index,
		Turns:  turns,
		Secret: localSecret(turns),
		Addr:   fmt.Sprintf("127.0.%d.%d", (index+1)/256, (index+1)%256),
		Announce: func(endpoint string) {
			for range count - 1 {
				_, _ = fmt.Fprintf(pipe, "%-*s", endpointRecord, endpoint)
			}
			pipe.Close()
		},
		Endpoint: func(ctx context.Context) (string, error) {
			defer pipe.Close()
			_ = pipe.SetReadDeadline(time.Now().Add(endpointWait))
			defer context.AfterFunc(ctx, func() { _ = pipe.SetReadDeadline(time.Now()) })()
			b := make([]byte, endpointRecord)
			if _, err := io.ReadFull(pipe, b); err != nil {
				if errors.Is(err, io.EOF) {
					return "", errors.New("node 0 ended before it said where to meet")
				}
				return "", fmt.Errorf("node 0 has not said within %v where to meet: %w", endpointWait, err)
			}
			return strings.TrimSpace(string(b)), nil
		},
	}
}
