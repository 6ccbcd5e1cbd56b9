package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/launch"
	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/scratch"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous/secret"
)

// agentPlace is the place of an agent among its keeper's agents.
type agentPlace struct {
	index, count int
	tag          string // names its temporary files
}

func (p agentPlace) String() string { return fmt.Sprintf("%d/%d/%s", p.index, p.count, p.tag) }

func parsePlace(text string) (agentPlace, error) {
	var p agentPlace
	_, err := fmt.Sscanf(text, "%d/%d/%s", &p.index, &p.count, &p.tag)
	if err != nil || p.index < 0 || p.index >= p.count {
		return agentPlace{}, usagef("--%s is for gorun itself; run gorun PROGRAM", agentFlag)
	}
	return p, nil
}

// runAgent runs one node's part of the job.
func runAgent(ctx context.Context, o *jobOptions) error {
	place, err := parsePlace(o.agent)
	if err != nil {
		return err
	}
	survivePipes()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, process.Forwarded(o.raw.Signals(os.LookupEnv)...)...)
	life, err := process.OpenLifeline(process.LifelineFD)
	if err != nil {
		return err
	}
	defer life.Close()
	life.SendReady() // until now the keeper held signals back
	opts, err := agentOptions(o, place)
	if err != nil && place.index == 0 {
		return reportError(opts.Spec, err)
	}
	if err != nil {
		return err
	}
	opts.Signals, opts.Keeper = signals, life.Lost()
	code, err := launch.Run(ctx, opts)
	if err == nil {
		life.SendEnd(place.index, code)
	}
	if err == nil && code != 0 {
		return exitStatus(code)
	}
	return err
}

// agentOptions returns the options from the flags and from this process's environment
// and files. With an error it returns the Spec, if it is known.
func agentOptions(o *jobOptions, place agentPlace) (launch.Options, error) {
	sp, err := o.resolve()
	if err != nil {
		return launch.Options{}, &launch.UsageError{Err: err}
	}
	if err := os.Setenv(spec.SignalsVariable, o.raw.SignalNames(os.LookupEnv)); err != nil {
		return launch.Options{}, &launch.UsageError{Err: err}
	}
	opts := launch.Options{
		Spec: sp, Version: version(), Env: os.Environ(),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Self: selfPath, Probe: []string{"gorun", probeCommand},
		Scratch: scratch.Tag(place.tag), CommandWith: o.shownCommandWith,
	}
	_ = os.Unsetenv(secret.Env) // else the agent's children would get it
	if opts.Dir, err = os.Getwd(); err != nil {
		return opts, fmt.Errorf("cannot find the working directory: %w", err)
	}
	if place.count > 1 {
		opts.Local, err = localNode(place.index, place.count)
	}
	return opts, err
}

// localSecret reads the secret of the agents of this machine.
func localSecret() ([]byte, error) {
	shared := os.NewFile(secretFD, "secret")
	defer shared.Close()
	text, err := io.ReadAll(io.NewSectionReader(shared, 0, secret.Max)) // all agents share the file's offset
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
	_ = syscall.SetNonblock(surveyReadyFD, true)
	survey := &device.Exchange{Others: -1, Answer: os.NewFile(surveyFD, "gpus"), Ready: os.NewFile(surveyReadyFD, "gpus-ready")}
	if index == 0 {
		survey.Others = count - 1
	}
	return &launch.LocalNode{
		Index:  index,
		Secret: key,
		Survey: survey,
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
					return "", errors.New("node 0 ended before it announced the endpoint")
				}
				return "", fmt.Errorf("node 0 has not announced the endpoint within %v: %w", endpointWait, err)
			}
			return strings.TrimSpace(string(b)), nil
		},
	}, nil
}
