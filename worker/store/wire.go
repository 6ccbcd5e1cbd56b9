package store

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// Limits of torch's libuv server. This client keeps them in both directions.
const (
	MaxKey   = 8 << 10   // bytes of one key
	MaxValue = 8 << 20   // bytes of one value
	MaxKeys  = 128 << 10 // keys in one request
)

// Commands, from torch/csrc/distributed/c10d/TCPStoreBackend.hpp.
const (
	cmdValidate   = 0
	cmdSet        = 1
	cmdCompareSet = 2
	cmdGet        = 3
	cmdAdd        = 4
	cmdCheck      = 5
	cmdWait       = 6
	cmdNumKeys    = 7
	cmdDelete     = 8
	cmdAppend     = 9
	cmdPing       = 13
)

// legacyCommand returns the number of cmd in the dialect of torch 1.9 to 2.0, which has no
// VALIDATE.
func legacyCommand(cmd byte) byte {
	if cmd <= cmdNumKeys {
		return cmd - 1
	}
	return cmd
}

// magic follows VALIDATE and identifies a client of this protocol.
const magic = 0x3C85F7CE

// request collects one request: a command byte and its fields, little-endian.
type request struct{ b []byte }

func newRequest(cmd byte) *request { return &request{b: []byte{cmd}} }

func (r *request) u32(v uint32) *request {
	r.b = binary.LittleEndian.AppendUint32(r.b, v)
	return r
}

func (r *request) u64(v uint64) *request {
	r.b = binary.LittleEndian.AppendUint64(r.b, v)
	return r
}

func (r *request) bytes(v []byte) *request {
	r.u64(uint64(len(v)))
	r.b = append(r.b, v...)
	return r
}

func (r *request) key(k string) *request { return r.bytes([]byte(k)) }

func (r *request) keys(keys []string) *request {
	r.u64(uint64(len(keys)))
	for _, k := range keys {
		r.key(k)
	}
	return r
}

func readByte(r *bufio.Reader) (byte, error) { return r.ReadByte() }

func readI64(r *bufio.Reader) (int64, error) {
	var b [8]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, err
	}
	return int64(binary.LittleEndian.Uint64(b[:])), nil
}

func readU32(r *bufio.Reader) (uint32, error) {
	var b [4]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b[:]), nil
}

// firstChunk is what a field may take before any of it arrives, in bytes.
const firstChunk = 4 << 10

// readBytes reads a length and as many bytes. Memory grows with the bytes that arrive,
// not with the length; reserve, if it is not nil, is asked for it first.
func readBytes(r *bufio.Reader, reserve func(n int) error) ([]byte, error) {
	n, err := readI64(r)
	if err != nil {
		return nil, err
	}
	if n < 0 || n > MaxValue {
		return nil, fmt.Errorf("the reply claims %d bytes, the limit is %d", uint64(n), MaxValue)
	}
	var b []byte
	for have := 0; have < int(n); have = len(b) {
		step := min(int(n)-have, max(have, firstChunk))
		if reserve != nil {
			if err := reserve(step); err != nil {
				return nil, err
			}
		}
		b = slices.Grow(b, step)[:have+step]
		if _, err := io.ReadFull(r, b[have:]); err != nil {
			if err == io.EOF && have > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return b, nil
}
