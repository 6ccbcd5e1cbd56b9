package tcp

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gorun/gorun/worker/collective"
)

// Frames are little-endian. A connection starts with a hello from the side that
// dialled and one answer byte; then messages go both ways, a header and a payload.
const (
	helloMagic   = 0x314E5247 // "GRN1"
	messageMagic = 0x474D5247 // "GRMG"
	helloSize    = 4 + 4 + 4 + sha256.Size
	headerSize   = 4 + 1 + 1 + 1 + 1 + 4 + 4 + 8 + 8 + 8

	// maxReason is the longest reason for giving up that is sent or accepted, in bytes.
	maxReason = 1 << 10
)

// Answers to a hello.
const (
	answerOK   = 1 // this is the pair's connection
	answerBusy = 2 // the pair has, or is about to have, another connection
	answerLost = 3 // the pair had a connection that has ended
)

// Frames that are not messages; their numbers are beside collective's kinds.
const (
	frameBroken = 254 // payload: why the sender gave up
	frameBye    = 255 // the sender closed on purpose
)

// hello has the rank that dials and the rank that is dialled. Its proof shows that it
// belongs to the world.
type hello struct {
	from, to uint32
	proof    [sha256.Size]byte
}

func newHello(token string, from, to int) hello {
	return hello{uint32(from), uint32(to), sha256.Sum256([]byte("gorun world " + token))}
}

func (h hello) encode() []byte {
	b := binary.LittleEndian.AppendUint32(nil, helloMagic)
	b = binary.LittleEndian.AppendUint32(b, h.from)
	b = binary.LittleEndian.AppendUint32(b, h.to)
	return append(b, h.proof[:]...)
}

// parseHello checks b, helloSize bytes, against the world that expects it and
// returns the rank that dials.
func parseHello(b []byte, token string, rank, size int) (from int, err error) {
	if len(b) != helloSize || binary.LittleEndian.Uint32(b) != helloMagic {
		return 0, errors.New("not a rank of a gorun world")
	}
	h := hello{from: binary.LittleEndian.Uint32(b[4:]), to: binary.LittleEndian.Uint32(b[8:])}
	copy(h.proof[:], b[12:])
	want := newHello(token, 0, 0).proof
	if subtle.ConstantTimeCompare(h.proof[:], want[:]) != 1 {
		return 0, errors.New("a rank of another world")
	}
	if h.to != uint32(rank) || h.from == uint32(rank) || h.from >= uint32(size) {
		return 0, fmt.Errorf("rank %d dials rank %d, this is rank %d of %d", h.from, h.to, rank, size)
	}
	return int(h.from), nil
}

// header precedes a payload of length bytes.
type header struct {
	frame  uint8 // a collective.Kind or one of the frames above
	call   collective.Call
	length uint64
}

func (h header) encode() []byte {
	b := make([]byte, 0, headerSize)
	b = binary.LittleEndian.AppendUint32(b, messageMagic)
	b = append(b, h.frame, byte(h.call.Type), byte(h.call.Op), 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(h.call.Root))
	b = binary.LittleEndian.AppendUint32(b, h.call.Step)
	b = binary.LittleEndian.AppendUint64(b, h.call.Seq)
	b = binary.LittleEndian.AppendUint64(b, h.call.Count)
	return binary.LittleEndian.AppendUint64(b, h.length)
}

// parseHeader reads headerSize bytes. It refuses only headers that no sender would
// send; the receiver compares the call with the expected one.
func parseHeader(b []byte) (header, error) {
	if len(b) != headerSize || binary.LittleEndian.Uint32(b) != messageMagic || b[7] != 0 {
		return header{}, errors.New("sent something that is not a message")
	}
	h := header{
		frame: b[4],
		call: collective.Call{
			Kind:  collective.Kind(b[4]),
			Type:  collective.DType(b[5]),
			Op:    collective.Op(b[6]),
			Root:  int32(binary.LittleEndian.Uint32(b[8:])),
			Step:  binary.LittleEndian.Uint32(b[12:]),
			Seq:   binary.LittleEndian.Uint64(b[16:]),
			Count: binary.LittleEndian.Uint64(b[24:]),
		},
		length: binary.LittleEndian.Uint64(b[32:]),
	}
	if h.frame == frameBroken && h.length > maxReason || h.frame == frameBye && h.length != 0 {
		return header{}, fmt.Errorf("sent a control frame of %d bytes", h.length)
	}
	return h, nil
}
