package collective

import "fmt"

// Kind names the operation of a message; the values are part of the protocol.
type Kind uint8

// Operations.
const (
	KindAllReduce     Kind = 1
	KindBroadcast     Kind = 2
	KindBarrier       Kind = 3
	KindSend          Kind = 4
	KindReduce        Kind = 5
	KindAllGather     Kind = 6
	KindAllGatherV    Kind = 7
	KindReduceScatter Kind = 8
	KindGather        Kind = 9
	KindScatter       Kind = 10
	KindAllToAll      Kind = 11
	KindAllToAllV     Kind = 12

	// KindReduceScatterV is a part of calls in two levels.
	KindReduceScatterV Kind = 13
)

func (k Kind) String() string {
	switch k {
	case KindAllReduce:
		return "all-reduce"
	case KindBroadcast:
		return "broadcast"
	case KindBarrier:
		return "barrier"
	case KindSend:
		return "send/receive"
	case KindReduce:
		return "reduce"
	case KindAllGather:
		return "all-gather"
	case KindAllGatherV:
		return "all-gather of unequal parts"
	case KindReduceScatter:
		return "reduce-scatter"
	case KindGather:
		return "gather"
	case KindScatter:
		return "scatter"
	case KindAllToAll:
		return "all-to-all"
	case KindAllToAllV:
		return "all-to-all of unequal parts"
	case KindReduceScatterV:
		return "reduce-scatter of unequal parts"
	}
	return fmt.Sprintf("operation(%d)", uint8(k))
}

// Call describes the call that a message belongs to. Both sides of a message must agree
// on every field.
type Call struct {
	Comm  uint64 // the communicator: 0 is the world's
	Kind  Kind
	Type  DType
	Op    Op     // reductions only
	Root  int32  // broadcast, reduce, gather, scatter only
	Tag   int32  // send/receive only
	Seq   uint64 // from 1: number among the communicator's collectives, or among the sends from one rank to another with a tag
	Count uint64 // elements of the buffer, or of one rank's part of it; see Work
	Step  uint32 // number of the message within the call
}

// Signature is a hash of all fields but the step. Ranks that make the same call have the
// same signature, ranks that make different calls have different ones but for chance.
func (c *Call) Signature() uint64 {
	h := uint64(14695981039346656037)
	for _, v := range [...]uint64{
		c.Comm, c.Seq, c.Count,
		uint64(c.Kind) | uint64(c.Type)<<8 | uint64(c.Op)<<16,
		uint64(uint32(c.Root)) | uint64(uint32(c.Tag))<<32,
	} {
		h = (h ^ v) * 0x9E3779B97F4A7C15
		h ^= h >> 29
	}
	return h
}

// String returns the call for a person, without the step.
func (c Call) String() string { return c.named(c.Kind.String()) }

// named is String with another name of the operation.
func (c Call) named(name string) string {
	s := name
	if c.Seq > 0 { // else the call did not begin
		s = fmt.Sprintf("%s #%d", name, c.Seq)
	}
	switch c.Kind {
	case KindAllReduce, KindReduceScatter, KindReduceScatterV:
		s = fmt.Sprintf("%s (%v of %v x %d)", s, c.Op, c.Type, c.Count)
	case KindReduce:
		s = fmt.Sprintf("%s (%v of %v x %d to rank %d)", s, c.Op, c.Type, c.Count, c.Root)
	case KindBroadcast, KindScatter:
		s = fmt.Sprintf("%s (%v x %d from rank %d)", s, c.Type, c.Count, c.Root)
	case KindGather:
		s = fmt.Sprintf("%s (%v x %d to rank %d)", s, c.Type, c.Count, c.Root)
	case KindSend:
		if c.Tag != 0 {
			s = fmt.Sprintf("%s with tag %d", s, c.Tag)
		}
		s = fmt.Sprintf("%s (%v x %d)", s, c.Type, c.Count)
	case KindAllGather, KindAllGatherV, KindAllToAll:
		s = fmt.Sprintf("%s (%v x %d)", s, c.Type, c.Count)
	case KindAllToAllV:
		s = fmt.Sprintf("%s (%v)", s, c.Type)
	}
	if c.Comm != 0 {
		s += fmt.Sprintf(" of communicator %x", c.Comm>>48)
	}
	return s
}
