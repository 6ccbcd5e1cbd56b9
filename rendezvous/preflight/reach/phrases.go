package reach

// phrases are the words for the faults of one kind of probe; %s is a node, or
// nodes.
type phrases struct {
	groups       string // no good path between groups of nodes
	everywhere   string // no good path at all
	point        string // both directions of all paths of a point
	toPoint      string // all paths to a point
	fromPoint    string // all paths from a point
	pair, oneWay string // the paths, or the path, between two points
	between      string // the paths between networks, or a network and a point
	node         nodePhrases

	undirected bool // the side that connected need not be the side at fault
}

// nodePhrases are the words for one node in a list of nodes.
type nodePhrases struct{ point, toPoint, fromPoint, pair, oneWay string }

func connecting() phrases {
	return phrases{
		groups:     "The nodes fall into %d groups with no connection between them",
		everywhere: "No node can connect to any other",
		point:      "No connection to or from %s",
		toPoint:    "No node can connect to %s",
		fromPoint:  "%s can connect to no node",
		pair:       "%s and %s cannot connect to each other",
		oneWay:     "%s cannot connect to %s",
		between:    "No connection",
		node: nodePhrases{
			point:     "no connection to it or from it",
			toPoint:   "no node connects to it",
			fromPoint: "connects to no node",
			pair:      "no connection to %s, nor back",
			oneWay:    "no connection to %s",
		},
	}
}

// choosing returns the phrases for addresses of which some ports are closed.
func choosing() phrases {
	return phrases{
		groups:     "The nodes fall into %d groups between which some ports are closed",
		everywhere: "Every node can connect to some ports of the others and not to others",
		point:      "Some ports of %s are closed to others, and some ports of others to it",
		toPoint:    "Some ports of %s are closed to others",
		fromPoint:  "Some ports of others are closed to %s",
		pair:       "%s and %s can connect to some ports of each other and not to others",
		oneWay:     "%s cannot connect to some ports of %s",
		between:    "No connection to some ports",
	}
}

// losing returns the phrases for paths on which packets get lost. The direction
// is unknown, because a segment is sent again also if its acknowledgement is
// lost.
func losing() phrases {
	return undirected(phrases{
		groups:     "The nodes fall into %d groups between which packets get lost",
		everywhere: "Packets get lost between all nodes",
		point:      "Packets to or from %s get lost",
		pair:       "Packets between %s and %s get lost",
		between:    "No connection without loss",
		node:       nodePhrases{point: "packets to or from it get lost"},
	})
}

// crawling returns the phrases for paths that are too slow.
func crawling() phrases {
	return undirected(phrases{
		groups:     "The nodes fall into %d groups between which the paths are slow",
		everywhere: "The paths between all nodes are slow",
		point:      "The path to or from %s is slow",
		pair:       "The path between %s and %s is slow",
		between:    "No fast connection",
		node:       nodePhrases{point: "the path to or from it is slow"},
	})
}

// undirected completes the phrases for faults whose direction is unknown.
func undirected(p phrases) phrases {
	p.toPoint, p.fromPoint, p.undirected = p.point, p.point, true
	return p
}

// writing returns the phrases for large writes, which each connection makes in
// both directions.
func writing() phrases {
	const pair = "Large packets do not pass between %s and %s"
	return phrases{
		groups:     "The nodes fall into %d groups between which no large packet passes",
		everywhere: "Large packets pass between no two nodes",
		point:      "Large packets do not pass to or from %s",
		toPoint:    "Large packets do not pass to or from %s when others connect",
		fromPoint:  "Large packets do not pass to or from %s when it connects",
		pair:       pair,
		oneWay:     pair,
		between:    "No large packet passes",
		node: nodePhrases{
			point:     "no large packet to it or from it",
			toPoint:   "no large packet, when others connect to it",
			fromPoint: "no large packet, when it connects to others",
			pair:      "no large packet to or from %s",
			oneWay:    "no large packet to or from %s",
		},
	}
}
