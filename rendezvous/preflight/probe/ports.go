package probe

import (
	"math/rand/v2"
	"slices"
)

const (
	// maxParts is how many ports of an address are opened at most. A firewall
	// that closes an eighth of the range closes at least one of them.
	maxParts = 16
	// portsPerPart is how many ports a range must have for each port that is
	// opened, because gorun's other listeners and other agents share a range
	// that the user asked for.
	portsPerPart = 8
	// partTries is how many ports of a part are tried if other programs hold
	// them.
	partTries = 16
)

// Ports are the ports that a program may be given. The zero value leaves the
// choice to the kernel, which gives a listener of a Go program only ports of
// the lower half of its range.
type Ports struct {
	Lo, Hi   int      // inclusive
	Reserved [][2]int // never given, inclusive
}

func (p Ports) valid() bool { return p.Lo > 0 && p.Lo <= p.Hi && p.Hi <= 65535 }

// parts cuts the range into equal parts and returns some ports of each, at
// random.
func (p Ports) parts() [][]int {
	if !p.valid() {
		return [][]int{{0}}
	}
	size := p.Hi - p.Lo + 1
	out := make([][]int, max(1, min(maxParts, size/portsPerPart)))
	for i := range out {
		first, end := p.Lo+i*size/len(out), p.Lo+(i+1)*size/len(out)
		for range partTries {
			if port := first + rand.IntN(end-first); p.isAllowed(port) && !slices.Contains(out[i], port) {
				out[i] = append(out[i], port)
			}
		}
	}
	return out
}

// quarters returns ports of each quarter of the range, with the quarters in
// random order. A firewall that inspects single packets drops the answers to
// some ports.
func (p Ports) quarters() (out [4][]int) {
	for i, quarter := range rand.Perm(len(out)) {
		if size := p.Hi - p.Lo + 1; p.valid() && size >= len(out)*portsPerPart {
			part := Ports{Lo: p.Lo + quarter*size/len(out), Hi: p.Lo + (quarter+1)*size/len(out) - 1, Reserved: p.Reserved}
			for range 4 {
				if port := part.Lo + rand.IntN(part.Hi-part.Lo+1); part.isAllowed(port) {
					out[i] = append(out[i], port)
				}
			}
		}
		out[i] = append(out[i], 0)
	}
	return out
}

// all returns the ports of the range in a random order.
func (p Ports) all() []int {
	if !p.valid() {
		return []int{0}
	}
	out := rand.Perm(p.Hi - p.Lo + 1)
	for i := range out {
		out[i] += p.Lo
	}
	return slices.DeleteFunc(out, func(port int) bool { return !p.isAllowed(port) })
}

func (p Ports) isAllowed(port int) bool {
	return !slices.ContainsFunc(p.Reserved, func(s [2]int) bool { return port >= s[0] && port <= s[1] })
}
