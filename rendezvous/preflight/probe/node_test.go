package probe

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
)

// nodeFlag makes the test binary a node. It is an argument and not a variable,
// because a variable would be inherited.
const nodeFlag = "-node"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == nodeFlag {
		os.Exit(runNode())
	}
	os.Exit(m.Run())
}

// order is what a node receives first.
type order struct {
	ID    string
	Addrs []Address
	Ports Ports
}

// runNode listens as its order says, answers with its listeners, and runs a
// plan for each further line until its input ends.
func runNode() int {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, MaxBytes)
	out := json.NewEncoder(os.Stdout)
	var o order
	if !in.Scan() || json.Unmarshal(in.Bytes(), &o) != nil {
		return 1
	}
	options := Options{Key: "lab", ID: o.ID, Ports: o.Ports}
	s, errs := Listen(options, o.Addrs, o.Ports)
	for _, err := range errs {
		fmt.Fprintln(os.Stderr, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { s.Serve(ctx) })
	defer serving.Wait()
	defer cancel()
	if out.Encode(s.Listeners()) != nil {
		return 1
	}
	for in.Scan() {
		p, err := Decode(in.Bytes())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if out.Encode(Run(ctx, options, p)) != nil {
			return 1
		}
	}
	return 0
}
