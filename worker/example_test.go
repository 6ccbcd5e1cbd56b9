package worker_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/gorun/gorun/worker"
)

// comm returns the communicator of a world of one, since these examples run without a
// launcher.
func comm() (context.Context, *worker.Comm) {
	ctx := context.Background()
	w, err := worker.Start(ctx, worker.Settings{Size: 1})
	if err != nil {
		panic(err)
	}
	c, err := w.Comm(ctx)
	if err != nil {
		panic(err)
	}
	return ctx, c
}

func ExampleMain() {
	run := func(ctx context.Context, w *worker.World) error {
		c, err := w.Comm(ctx)
		if err != nil {
			return err
		}
		return worker.Barrier(ctx, c)
	}
	func() { os.Exit(worker.Main(run, worker.WithDeadline(5*time.Minute))) }()
}

func ExampleComm_Split() {
	ctx, c := comm()
	// Two groups of neighbours: the ranks of the first half and those of the second.
	half, err := c.Split(ctx, c.Rank()*2/c.Size(), c.Rank())
	if err != nil {
		panic(err)
	}
	fmt.Println(half.Rank(), half.Size())
	// Output: 0 1
}

func ExampleAllReduce() {
	ctx, c := comm()
	gradients := []float32{1, 2}
	if err := worker.AllReduce(ctx, c, gradients, worker.Avg); err != nil {
		panic(err)
	}
	fmt.Println(gradients)
	// Output: [1 2]
}

func ExampleReduce() {
	ctx, c := comm()
	total := make([]int, 1)
	if err := worker.Reduce(ctx, c, total, []int{5}, worker.Sum, 0); err != nil {
		panic(err)
	}
	fmt.Println(total)
	// Output: [5]
}

func ExampleBroadcast() {
	ctx, c := comm()
	weights := []float64{1, 2, 3}
	if err := worker.Broadcast(ctx, c, weights, 0); err != nil {
		panic(err)
	}
	fmt.Println(weights)
	// Output: [1 2 3]
}

func ExampleBroadcastValue() {
	ctx, c := comm()
	var config struct{ Model string }
	if c.Rank() == 0 {
		config.Model = "small"
	}
	if err := worker.BroadcastValue(ctx, c, &config, 0); err != nil {
		panic(err)
	}
	fmt.Println(config.Model)
	// Output: small
}

func ExampleAllGather() {
	ctx, c := comm()
	all := make([]int, c.Size())
	if err := worker.AllGather(ctx, c, all, []int{c.Rank()}); err != nil {
		panic(err)
	}
	fmt.Println(all)
	// Output: [0]
}

func ExampleAllGatherV() {
	ctx, c := comm()
	// Rank i has i+1 words.
	counts, sum := make([]int, c.Size()), 0
	for i := range counts {
		counts[i] = i + 1
		sum += counts[i]
	}
	mine := make([]uint32, c.Rank()+1)
	all := make([]uint32, sum)
	if err := worker.AllGatherV(ctx, c, all, counts, mine); err != nil {
		panic(err)
	}
	fmt.Println(all)
	// Output: [0]
}

func ExampleReduceScatter() {
	ctx, c := comm()
	mine := make([]float32, 2)
	if err := worker.ReduceScatter(ctx, c, mine, make([]float32, 2*c.Size()), worker.Sum); err != nil {
		panic(err)
	}
	fmt.Println(mine)
	// Output: [0 0]
}

func ExampleGather() {
	ctx, c := comm()
	var all []byte
	if c.Rank() == 0 {
		all = make([]byte, c.Size())
	}
	if err := worker.Gather(ctx, c, all, []byte{7}, 0); err != nil {
		panic(err)
	}
	fmt.Println(all)
	// Output: [7]
}

func ExampleScatter() {
	ctx, c := comm()
	var all []int16
	if c.Rank() == 0 {
		all = make([]int16, c.Size())
	}
	mine := make([]int16, 1)
	if err := worker.Scatter(ctx, c, mine, all, 0); err != nil {
		panic(err)
	}
	fmt.Println(mine)
	// Output: [0]
}

func ExampleAllToAll() {
	ctx, c := comm()
	out, in := make([]int64, c.Size()), make([]int64, c.Size())
	for i := range out {
		out[i] = int64(10*c.Rank() + i)
	}
	if err := worker.AllToAll(ctx, c, in, out); err != nil {
		panic(err)
	}
	fmt.Println(in)
	// Output: [0]
}

func ExampleAllToAllV() {
	ctx, c := comm()
	counts := make([]int, c.Size()) // nothing to send, nothing to receive
	if err := worker.AllToAllV[float32](ctx, c, nil, counts, nil, counts); err != nil {
		panic(err)
	}
	// Output:
}

func ExampleBarrier() {
	ctx, c := comm()
	if err := worker.Barrier(ctx, c); err != nil {
		panic(err)
	}
	// Output:
}

func ExampleSend() {
	ctx, c := comm()
	const loss = 1 // a tag
	switch {
	case c.Size() < 2:
	case c.Rank() == 0:
		if err := worker.Send(ctx, c, []float64{0.5}, 1, loss); err != nil {
			panic(err)
		}
	case c.Rank() == 1:
		got := make([]float64, 1)
		if err := worker.Recv(ctx, c, got, 0, loss); err != nil {
			panic(err)
		}
	}
	// Output:
}

func ExampleSendRecv() {
	ctx, c := comm()
	next, prev := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	theirs := make([]int, 1)
	if err := worker.SendRecv(ctx, c, []int{c.Rank()}, next, theirs, prev); err != nil {
		panic(err)
	}
	fmt.Println(theirs)
	// Output: [0]
}

func ExampleWaitAll() {
	ctx, c := comm()
	var requests []*worker.Request
	in := make([][]float32, c.Size())
	for r := range c.Size() {
		if r == c.Rank() {
			continue
		}
		in[r] = make([]float32, 4)
		requests = append(requests,
			worker.Irecv(c, in[r], r),
			worker.Isend(c, []float32{1, 2, 3, 4}, r))
	}
	if err := worker.WaitAll(ctx, requests...); err != nil {
		panic(err)
	}
	// Output:
}

func ExampleIAllReduce() {
	ctx, c := comm()
	layers := [][]float32{{1}, {2}, {3}}
	var requests []*worker.Request
	for _, gradients := range layers {
		requests = append(requests, worker.IAllReduce(c, gradients, worker.Avg))
	}
	// Compute something meanwhile.
	if err := worker.WaitAll(ctx, requests...); err != nil {
		panic(err)
	}
	fmt.Println(layers)
	// Output: [[1] [2] [3]]
}
