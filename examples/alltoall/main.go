// Command alltoall is a Go worker that transposes a matrix whose rows are spread over the
// ranks: the exchange in every distributed FFT, sort and mixture of experts. It checks
// the result and exits with 1 if an element is wrong.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/gorun/gorun/worker"
)

func main() {
	rows := flag.Int("rows", 256, "rows of the matrix on each rank")
	flag.Parse()
	os.Exit(worker.Main(func(ctx context.Context, w *worker.World) error { return run(ctx, w, *rows) }))
}

func run(ctx context.Context, w *worker.World, rows int) error {
	if rows < 1 {
		return fmt.Errorf("alltoall: -rows is %d: it must be at least 1", rows)
	}
	c, err := w.Comm(ctx)
	if err != nil {
		return err
	}
	dev, err := openDevice(ctx, c)
	if err != nil {
		return err
	}
	mine := part(c.Rank(), rows, rows*c.Size())
	start := time.Now()
	got, err := transpose(ctx, dev, mine, rows)
	if err != nil {
		return err
	}
	took := time.Since(start)
	n := rows * c.Size()
	for i, v := range got { // row r of the result is column r of the matrix
		if want := element(i%n, c.Rank()*rows+i/n, n); v != want {
			return fmt.Errorf("alltoall: rank %d has %v in row %d, column %d, want %v", c.Rank(), v, i/n, i%n, want)
		}
	}
	// Each rank has checked its part. One message from each tells rank 0.
	if err := worker.Barrier(ctx, c); err != nil {
		return err
	}
	if c.Rank() == 0 {
		fmt.Printf("alltoall: %d ranks, %d x %d transposed and verified, %.1f ms\n",
			c.Size(), n, n, float64(took.Microseconds())/1000)
	}
	return dev.Close()
}

// element is the matrix: every element has another value.
func element(row, column, n int) float64 { return float64(row*n + column) }

// part returns the rows of the n x n matrix that a rank has.
func part(rank, rows, n int) []float64 {
	m := make([]float64, rows*n)
	for i := range m {
		m[i] = element(rank*rows+i/n, i%n, n)
	}
	return m
}

// transpose returns this rank's rows of the transposed matrix. Block b of the rows, turned,
// belongs to rank b.
func transpose(ctx context.Context, d device, mine []float64, rows int) ([]float64, error) {
	n := rows * d.Size()
	out, in := make([]float64, len(mine)), make([]float64, len(mine))
	for b := range d.Size() {
		block := out[b*rows*rows : (b+1)*rows*rows]
		for i := range rows {
			for j := range rows {
				block[j*rows+i] = mine[i*n+b*rows+j]
			}
		}
	}
	if err := allToAllOn(ctx, d, in, out); err != nil {
		return nil, err
	}
	result := out // its blocks have been sent
	for b := range d.Size() {
		block := in[b*rows*rows : (b+1)*rows*rows]
		for j := range rows {
			copy(result[j*n+b*rows:], block[j*rows:(j+1)*rows])
		}
	}
	return result, nil
}
