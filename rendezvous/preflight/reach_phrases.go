package preflight

// phrases are how the faults of one kind of attempt are told; %s is a node, or
// nodes.
type phrases struct {
	islands, nobody, cutOff, deaf, mute, pair, oneWay, none string
	// of one node in a list
	isCutOff, isDeaf, isMute, isPair, isOneWay string
}

func connecting() phrases {
	return phrases{
		islands: "The nodes fall into %d groups with no connection between them",
		nobody:  "No node can connect to any other",
		cutOff:  "Nobody can connect to %s, nor from there to anybody",
		deaf:    "Nobody can connect to %s",
		mute:    "%s can connect to nobody",
		pair:    "%s and %s cannot connect to each other",
		oneWay:  "%s cannot connect to %s",
		none:    "No connection",

		isCutOff: "no connection to it or from it",
		isDeaf:   "nobody connects to it",
		isMute:   "connects to nobody",
		isPair:   "no connection to %s, nor back",
		isOneWay: "no connection to %s",
	}
}

// writing is for payloads, which each attempt sends in both directions.
func writing() phrases {
	const between = "Large packets do not pass between %s and %s"
	return phrases{
		islands: "The nodes fall into %d groups between which no large packet passes",
		nobody:  "Large packets pass between no two nodes",
		cutOff:  "Large packets do not pass to or from %s",
		deaf:    "Large packets do not pass to or from %s when others connect",
		mute:    "Large packets do not pass to or from %s when it connects",
		pair:    between,
		oneWay:  between,
		none:    "No large packet passes",

		isCutOff: "no large packet to it or from it",
		isDeaf:   "no large packet, when others connect to it",
		isMute:   "no large packet, when it connects to others",
		isPair:   "no large packet to or from %s",
		isOneWay: "no large packet to or from %s",
	}
}
