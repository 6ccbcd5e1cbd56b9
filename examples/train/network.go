package main

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/gorun/gorun/worker"
)

const (
	inputs = 4
	hidden = 32 // of the whole network
	batch  = 16 // samples of a row in a step
	rate   = 0.05
)

// network is this rank's share of y = out · tanh(in · x): some of the hidden units. Its
// parameters, and beside them their gradients, are one slice each, so that one AllReduce
// moves all of them.
type network struct {
	units  int
	params []float64 // units rows of inputs weights and a bias, then units weights of the output
	grads  []float64
	first  float64 // the loss of the first step
}

func newNetwork(units, share int) *network {
	n := &network{units: units}
	n.params = make([]float64, units*(inputs+2))
	n.grads = make([]float64, len(n.params))
	rng := rand.New(rand.NewPCG(1, uint64(share))) // ranks with the same units begin alike
	for i := range n.params {
		n.params[i] = rng.NormFloat64() / 2
	}
	return n
}

// in returns the weights and the bias of a unit; out returns its weight in the output.
func (n *network) in(p []float64, unit int) []float64 {
	return p[unit*(inputs+1) : (unit+1)*(inputs+1)]
}

func (n *network) out(p []float64, unit int) *float64 { return &p[n.units*(inputs+1)+unit] }

// sample returns an input and what the network shall learn to say of it.
func sample(rng *rand.Rand) (x [inputs]float64, y float64) {
	for i := range x {
		x[i] = rng.Float64()*2 - 1
	}
	return x, math.Sin(2*x[0]) + x[1]*x[2] - x[3]/2
}

// step trains on one batch and returns the mean loss of all rows. Each row has samples of
// its own.
func (n *network) step(ctx context.Context, g grid, step int) (float64, error) {
	rng := rand.New(rand.NewPCG(uint64(step), uint64(g.data.Rank())))
	var xs [batch][inputs]float64
	var ys [batch]float64
	active := make([]float64, batch*n.units)
	said := make([]float64, batch)
	for b := range batch {
		xs[b], ys[b] = sample(rng)
		for u := range n.units {
			w := n.in(n.params, u)
			sum := w[inputs]
			for i, x := range xs[b] {
				sum += w[i] * x
			}
			a := math.Tanh(sum)
			active[b*n.units+u] = a
			said[b] += a * *n.out(n.params, u)
		}
	}
	// Each rank of the row has the part of the output that comes from its units.
	if err := worker.AllReduce(ctx, g.model, said, worker.Sum); err != nil {
		return 0, err
	}
	clear(n.grads)
	loss := 0.0
	for b := range batch {
		off := said[b] - ys[b]
		loss += off * off / batch
		for u := range n.units {
			a, w := active[b*n.units+u], n.in(n.grads, u)
			*n.out(n.grads, u) += 2 * off * a / batch
			back := 2 * off * *n.out(n.params, u) * (1 - a*a) / batch
			for i, x := range xs[b] {
				w[i] += back * x
			}
			w[inputs] += back
		}
	}
	// The gradients and the loss of all rows: the loss goes while the gradients do.
	mean := []float64{loss}
	if err := worker.WaitAll(ctx,
		worker.IAllReduce(g.data, n.grads, worker.Avg),
		worker.IAllReduce(g.data, mean, worker.Avg)); err != nil {
		return 0, err
	}
	for i, d := range n.grads {
		n.params[i] -= rate * d
	}
	return mean[0], nil
}
