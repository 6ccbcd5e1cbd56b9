package reach

// phrases are the words for the faults of one kind of probe; %s is a node, or
// nodes.
type phrases struct {
	islands, nobody, cutOff, unreached, mute, pair, oneWay, none string
	// for one node in a list
	isCutOff, isUnreached, isMute, isPair, isOneWay string

	undirected bool // the side that connected need not be the side at fault
}

func connecting() phrases {
	return phrases{
		islands:   "The nodes fall into %d groups with no connection between them",
		nobody:    "No node can connect to any other",
		cutOff:    "No connection to or from %s",
		unreached: "No node can connect to %s",
		mute:      "%s can connect to no node",
		pair:      "%s and %s cannot connect to each other",
		oneWay:    "%s cannot connect to %s",
		none:      "No connection",

		isCutOff:    "no connection to it or from it",
		isUnreached: "no node connects to it",
		isMute:      "connects to no node",
		isPair:      "no connection to %s, nor back",
		isOneWay:    "no connection to %s",
	}
}

// choosing returns the phrases for addresses of which some ports are closed.
func choosing() phrases {
	return phrases{
		islands:   "The nodes fall into %d groups between which some ports are closed",
		nobody:    "Every node can connect to some ports of the others and not to others",
		cutOff:    "Some ports of %s are closed to others, and some ports of others to it",
		unreached: "Some ports of %s are closed to others",
		mute:      "Some ports of others are closed to %s",
		pair:      "%s and %s can connect to some ports of each other and not to others",
		oneWay:    "%s cannot connect to some ports of %s",
		none:      "No connection to some ports",
	}
}

// losing returns the phrases for paths on which packets get lost. The direction
// is unknown, because a segment is sent again also if its acknowledgement is
// lost.
func losing() phrases {
	const toOrFrom = "Packets to or from %s get lost"
	return phrases{
		islands: "The nodes fall into %d groups between which packets get lost",
		nobody:  "Packets get lost between all nodes",
		cutOff:  toOrFrom, unreached: toOrFrom, mute: toOrFrom,
		pair: "Packets between %s and %s get lost",
		none: "No connection without loss",

		isCutOff: "packets to or from it get lost",

		undirected: true,
	}
}

// crawling returns the phrases for paths that are too slow.
func crawling() phrases {
	const toOrFrom = "The way to or from %s is slow"
	return phrases{
		islands: "The nodes fall into %d groups between which the ways are slow",
		nobody:  "The ways between all nodes are slow",
		cutOff:  toOrFrom, unreached: toOrFrom, mute: toOrFrom,
		pair: "The way between %s and %s is slow",
		none: "No fast connection",

		isCutOff: "the way to or from it is slow",

		undirected: true,
	}
}

// writing returns the phrases for large writes, which each connection makes in
// both directions.
func writing() phrases {
	const between = "Large packets do not pass between %s and %s"
	return phrases{
		islands:   "The nodes fall into %d groups between which no large packet passes",
		nobody:    "Large packets pass between no two nodes",
		cutOff:    "Large packets do not pass to or from %s",
		unreached: "Large packets do not pass to or from %s when others connect",
		mute:      "Large packets do not pass to or from %s when it connects",
		pair:      between,
		oneWay:    between,
		none:      "No large packet passes",

		isCutOff:    "no large packet to it or from it",
		isUnreached: "no large packet, when others connect to it",
		isMute:      "no large packet, when it connects to others",
		isPair:      "no large packet to or from %s",
		isOneWay:    "no large packet to or from %s",
	}
}
