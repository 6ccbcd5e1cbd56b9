package probe

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
)

const (
	magic      = "gorunPb2"
	nonceSize  = 16
	maxID      = 1024    // bytes of a node's id
	maxSeen    = 64      // bytes of an address in text
	maxPayload = 1 << 20 // bytes that a hello may announce
	received   = 'r'     // the byte between the two payloads
)

var (
	errMagic = errors.New("it does not speak gorun's probe protocol")
	errMAC   = errors.New("it does not know this job's key")
)

// hello opens an exchange.
type hello struct {
	nonce [nonceSize]byte
	id    string // of the node that connects
	size  uint32 // bytes of payload each way
}

func newHello(id string, size uint32) hello {
	h := hello{id: id, size: size}
	_, _ = rand.Read(h.nonce[:]) // never fails (crypto/rand)
	return h
}

// reply answers a hello.
type reply struct {
	id    string     // of the node that answers
	seen  netip.Addr // source address of the connection
	clock int64      // of the node that answers, Unix nanoseconds
}

func (h hello) encode(key []byte) []byte {
	b := append([]byte(magic), h.nonce[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(h.id)))
	b = append(b, h.id...)
	b = binary.BigEndian.AppendUint32(b, h.size)
	return append(b, mac(key, b)...)
}

func (r reply) encode(key []byte, nonce [nonceSize]byte) []byte {
	seen := r.seen.String()
	b := binary.BigEndian.AppendUint16([]byte(magic), uint16(len(r.id)))
	b = append(b, r.id...)
	b = append(append(b, byte(len(seen))), seen...)
	b = binary.BigEndian.AppendUint64(b, uint64(r.clock))
	return append(b, mac(key, nonce[:], b)...)
}

func readHello(from io.Reader, key []byte) (hello, error) {
	var h hello
	in := frame{r: from}
	in.magic()
	copy(h.nonce[:], in.take(nonceSize))
	h.id = in.text(2, maxID)
	h.size = uint32(in.number(4, maxPayload))
	in.mac(key, nil)
	return h, in.err
}

func readReply(from io.Reader, key []byte, nonce [nonceSize]byte) (reply, error) {
	var r reply
	in := frame{r: from}
	in.magic()
	r.id = in.text(2, maxID)
	seen := in.text(1, maxSeen)
	clock := in.take(8)
	in.mac(key, nonce[:])
	if in.err != nil {
		return reply{}, in.err
	}
	r.clock = int64(binary.BigEndian.Uint64(clock))
	var err error
	if r.seen, err = netip.ParseAddr(seen); err != nil {
		return reply{}, fmt.Errorf("the source address is invalid: %q", seen)
	}
	return r, nil
}

// frame reads one bounded message and keeps it for its mac. After the first
// error it reads no more.
type frame struct {
	r    io.Reader
	read []byte
	err  error
}

func (f *frame) take(n int) []byte {
	if f.err != nil {
		return nil
	}
	at := len(f.read)
	f.read = append(f.read, make([]byte, n)...)
	if _, f.err = io.ReadFull(f.r, f.read[at:]); f.err != nil {
		return nil
	}
	return f.read[at:]
}

func (f *frame) magic() {
	if b := f.take(len(magic)); f.err == nil && string(b) != magic {
		f.err = errMagic
	}
}

// number reads an integer of n bytes that is at most limit.
func (f *frame) number(n, limit int) int {
	v := 0
	for _, b := range f.take(n) {
		v = v<<8 | int(b)
	}
	if v > limit {
		f.err = fmt.Errorf("it announces %d bytes; at most %d are allowed", v, limit)
		return 0
	}
	return v
}

// text reads a string that follows its length in n bytes.
func (f *frame) text(n, limit int) string {
	return string(f.take(f.number(n, limit)))
}

// mac verifies the bytes that were read, together with before: bytes that the
// other side need not send.
func (f *frame) mac(key, before []byte) {
	want := mac(key, before, f.read)
	if got := f.take(sha256.Size); f.err == nil && !hmac.Equal(got, want) {
		f.err = errMAC
	}
}

func mac(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}
