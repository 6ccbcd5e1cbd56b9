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

// Descriptors of an agent of --local-nodes, after the keeper's lifeline: a pipe into
// which node 0 writes the endpoint, once for each other node, which read it; and a
// file with the secret of the job's agents, for a user that gives none.
const (
	endpointFD     = process.LifelineFD + 1
	secretFD       = process.LifelineFD + 2
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
	fd, err := unix.MemfdCreate("gorun-secret", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot make the secret of the local nodes: memfd_create: %w", err)
	}
	key := os.NewFile(uintptr(fd), "secret")
	if _, err := key.WriteString(rand.Text()); err != nil {
		return nil, fmt.Errorf("cannot make the secret of the local nodes: %w", err)
	}
	return func(index int) []*os.File {
		if index == 0 {
			return []*os.File{wr, key}
		}
		return []*os.File{rd, key}
	}, nil
}

// localSecret reads the secret of the agents of this machine.
func localSecret() ([]byte, error) {
	shared := os.NewFile(secretFD, "secret")
	defer shared.Close()
	text, err := io.ReadAll(io.NewSectionReader(shared, 0, secret.Max)) // its offset is all agents'
	if err != nil {
		return nil, fmt.Errorf("cannot read the secret of the local nodes: %w", err)
	}
	return text, nil
}

// localNode places an agent of --local-nodes at 127.0.0.(1+index).
func localNode(index, count int) (*launch.LocalNode, error) {
	key, err := localSecret()
	if err != nil {
		return nil, err
	}
	_ = syscall.SetNonblock(endpointFD, true) // else a read has no deadline
	pipe := os.NewFile(endpointFD, "endpoint")
	return &launch.LocalNode{
		Index:  index,
		Secret: key,
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
	}, nil
}
