package rails

import "slices"

// Layout says where a rank stands among nodes.
type Layout struct {
	Nodes [][]int // the ranks of each node, in order
	Spots []Spot  // by rank
	Rails int     // number of rails
	Rail  []int   // the ranks of this rank's rail; empty: it has none
	Spot          // of this rank
}

// Spot is the place of one rank.
type Spot struct {
	Node  int // its node's index among the nodes
	Local int // its index on the node
}

// LayoutOf returns where rank stands, of ranks on the given nodes, by rank.
func LayoutOf(nodes []uint64, rank int) Layout {
	l := Layout{Rails: len(nodes)}
	index := map[uint64]int{}
	for r, id := range nodes {
		n, known := index[id]
		if !known {
			n = len(l.Nodes)
			index[id] = n
			l.Nodes = append(l.Nodes, nil)
		}
		l.Spots = append(l.Spots, Spot{n, len(l.Nodes[n])})
		l.Nodes[n] = append(l.Nodes[n], r)
	}
	for _, ranks := range l.Nodes {
		l.Rails = min(l.Rails, len(ranks))
	}
	l.Spot = l.Spots[rank]
	if l.Local < l.Rails {
		for _, ranks := range l.Nodes {
			l.Rail = append(l.Rail, ranks[l.Local])
		}
	}
	return l
}

// Here returns the ranks of this rank's node, in order.
func (l *Layout) Here() []int { return l.Nodes[l.Node] }

// inOrder reports whether the ranks of each node follow each other.
func (l *Layout) inOrder() bool { return slices.IsSorted(slices.Concat(l.Nodes...)) }

// isEven reports whether every rank has a rail.
func (l *Layout) isEven() bool { return l.Rails*len(l.Nodes) == len(l.Spots) }

// span is the elements from index from up to, but without, index to.
type span struct{ from, to int }

func (s span) count() int { return max(0, s.to-s.from) }

// overlap returns what two spans have in common.
func (s span) overlap(o span) span { return span{max(s.from, o.from), min(s.to, o.to)} }

// slice returns slice i of count elements, divided among rails: nothing if there is no
// such rail.
func slice(count, rails, i int) span {
	if i >= rails {
		return span{count, count}
	}
	return span{count * i / rails, count * (i + 1) / rails}
}
