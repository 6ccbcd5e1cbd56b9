package tcp

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gorun/gorun/worker/collective"
)

// Frames are little-endian. A connection starts with a handshake: the side that dialled
// sends a hello, the other a challenge with its proof, the first its own proof, the
// other one answer byte. Then messages go both ways, a header and a payload.
const (
	helloMagic   = 0x324E5247 // "GRN2"
	messageMagic = 0x484D5247 // "GRMH"
	nonceSize    = 32
	proofSize    = sha256.Size
	helloSize    = 4 + 4 + 4 + 4 + 8 + nonceSize
	headerSize   = 4 + 4 + 4 + 4 + 4 + 4 + 8 + 8 + 8 + 8

	// maxReason is the longest reason for giving up that is sent or accepted, in bytes.
	maxReason = 1 << 10
)

// Answers to a hello.
const (
	answerOK   = 1 // this is the lane
	answerBusy = 2 // the pair has, or is about to have, another connection for the lane
	answerLost = 3 // the pair had the lane and it has ended
)

// laneID says what a lane is for.
type laneID struct {
	rank       int    // the peer
	collective bool   // false: messages and control, of all communicators
	comm       uint64 // the communicator of a lane for collectives
}

// hello has the rank that dials, the rank that is dialled and the lane's purpose.
type hello struct {
	from, to   uint32
	collective bool
	comm       uint64
	nonce      [nonceSize]byte
}

func newHello(from int, id laneID) hello {
	h := hello{from: uint32(from), to: uint32(id.rank), collective: id.collective, comm: id.comm}
	rand.Read(h.nonce[:])
	return h
}

func (h hello) encode() []byte {
	b := binary.LittleEndian.AppendUint32(nil, helloMagic)
	b = binary.LittleEndian.AppendUint32(b, h.from)
	b = binary.LittleEndian.AppendUint32(b, h.to)
	var purpose uint32
	if h.collective {
		purpose = 1
	}
	b = binary.LittleEndian.AppendUint32(b, purpose)
	b = binary.LittleEndian.AppendUint64(b, h.comm)
	return append(b, h.nonce[:]...)
}

// parseHello checks b, helloSize bytes, against the rank that is dialled.
func parseHello(b []byte, rank, size int) (hello, error) {
	if len(b) != helloSize || binary.LittleEndian.Uint32(b) != helloMagic || binary.LittleEndian.Uint32(b[12:]) > 1 {
		return hello{}, errors.New("not a rank of a gorun world")
	}
	h := hello{
		from:       binary.LittleEndian.Uint32(b[4:]),
		to:         binary.LittleEndian.Uint32(b[8:]),
		collective: b[12] == 1,
		comm:       binary.LittleEndian.Uint64(b[16:]),
		nonce:      [nonceSize]byte(b[24:]),
	}
	if h.to != uint32(rank) || h.from == uint32(rank) || h.from >= uint32(size) || !h.collective && h.comm != 0 {
		return hello{}, fmt.Errorf("rank %d dials rank %d, this is rank %d of %d", h.from, h.to, rank, size)
	}
	return h, nil
}

// The sides of a handshake. A proof of one is none of the other.
const (
	sideDial   = "gorun dial"
	sideAccept = "gorun accept"
)

// proof shows that a side of the handshake knows the token. It is bound to everything
// that both sides have said, so it cannot be used again.
func proof(token, side string, h hello, challenge [nonceSize]byte) []byte {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte(side))
	mac.Write(h.encode())
	mac.Write(challenge[:])
	return mac.Sum(nil)
}

// frame says what a header and its payload are.
type frame uint8

// Frames. On a lane for collectives there are only frameCollective.
const (
	frameCollective frame = 1   // a message of a collective
	frameEager      frame = 2   // a message of Post that is sent at once
	frameReady      frame = 3   // a message of Post that is sent when the receiver is ready; no payload
	frameClear      frame = 4   // the receiver of a frameReady is ready
	frameData       frame = 5   // the message of a frameReady
	frameAck        frame = 6   // Count bytes of eager messages have been received
	frameWhere      frame = 7   // where are you, seen from this call?
	frameHere       frame = 8   // the answer: call is the last one; Step is 1 inside of it
	frameBroken     frame = 254 // payload: why the rank Root gave up
	frameBye        frame = 255 // the sender closed on purpose; it has received Count messages of Post
)

// header precedes a payload of length bytes.
type header struct {
	frame  frame
	call   collective.Call
	length uint64
}

func (h *header) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, messageMagic)
	b = append(b, byte(h.frame), byte(h.call.Kind), byte(h.call.Type), byte(h.call.Op))
	b = binary.LittleEndian.AppendUint32(b, uint32(h.call.Root))
	b = binary.LittleEndian.AppendUint32(b, uint32(h.call.Tag))
	b = binary.LittleEndian.AppendUint32(b, h.call.Step)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, h.call.Comm)
	b = binary.LittleEndian.AppendUint64(b, h.call.Seq)
	b = binary.LittleEndian.AppendUint64(b, h.call.Count)
	return binary.LittleEndian.AppendUint64(b, h.length)
}

var errNotMessage = errors.New("sent something that is not a message")

// parseHeader reads headerSize bytes. It refuses only headers that no sender would
// send; the receiver compares the call with the expected one.
func parseHeader(b []byte) (header, error) {
	if len(b) != headerSize || binary.LittleEndian.Uint32(b) != messageMagic || binary.LittleEndian.Uint32(b[20:]) != 0 {
		return header{}, errNotMessage
	}
	h := header{
		frame: frame(b[4]),
		call: collective.Call{
			Kind:  collective.Kind(b[5]),
			Type:  collective.DType(b[6]),
			Op:    collective.Op(b[7]),
			Root:  int32(binary.LittleEndian.Uint32(b[8:])),
			Tag:   int32(binary.LittleEndian.Uint32(b[12:])),
			Step:  binary.LittleEndian.Uint32(b[16:]),
			Comm:  binary.LittleEndian.Uint64(b[24:]),
			Seq:   binary.LittleEndian.Uint64(b[32:]),
			Count: binary.LittleEndian.Uint64(b[40:]),
		},
		length: binary.LittleEndian.Uint64(b[48:]),
	}
	most := uint64(0)
	switch h.frame {
	case frameCollective, frameData, frameReady:
		most = 1 << 60
	case frameEager:
		most = eagerMax
	case frameBroken:
		most = maxReason
	case frameClear, frameAck, frameWhere, frameHere, frameBye:
	default:
		return header{}, errNotMessage
	}
	if h.length > most {
		return header{}, fmt.Errorf("sent a frame %d of %d bytes", h.frame, h.length)
	}
	return h, nil
}
