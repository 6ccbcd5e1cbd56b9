package gossip

import (
	"encoding/binary"
	"errors"
)

// Bounds of a message's fields. The longest that an agent sends is its meta, of
// memberlist.MetaMaxSize bytes.
const (
	maxFields = 16
	maxKey    = 32  // bytes
	maxField  = 512 // bytes
)

// input returns the next n bytes of a message, or why there are none.
type input interface {
	next(n int) ([]byte, error)
}

var errShape = errors.New("agents send no such message")

// readFields reads one message: a MessagePack map of few short fields, without anything
// nested. It returns the fields that are numbers.
func readFields(in input) (numbers map[string]int64, err error) {
	b, err := in.next(1)
	if err != nil {
		return nil, err
	}
	n := int(b[0] & 0x0f)
	switch {
	case b[0]&0xf0 == 0x80:
	case b[0] == 0xde: // map 16
		if n, err = readLength(in, 2); err != nil {
			return nil, err
		}
	default:
		return nil, errShape
	}
	if n > maxFields {
		return nil, errBounds
	}
	numbers = make(map[string]int64, 4)
	for range n {
		key, _, err := readValue(in)
		if err != nil {
			return nil, err
		}
		if len(key) == 0 || len(key) > maxKey {
			return nil, errShape
		}
		name := string(key)
		_, v, err := readValue(in)
		if err != nil {
			return nil, err
		}
		if _, twice := numbers[name]; twice {
			return nil, errShape
		}
		numbers[name] = v
	}
	return numbers, nil
}

// readValue reads a value: a text, bytes, a number, a boolean or nil.
func readValue(in input) (text []byte, number int64, err error) {
	b, err := in.next(1)
	if err != nil {
		return nil, 0, err
	}
	switch c := b[0]; {
	case c <= 0x7f:
		return nil, int64(c), nil
	case c >= 0xe0:
		return nil, int64(int8(c)), nil
	case c&0xe0 == 0xa0:
		text, err = readBytes(in, int(c&0x1f))
	case c == 0xc0, c == 0xc2, c == 0xc3: // nothing, false, true
	case c == 0xd9, c == 0xc4:
		text, err = readCounted(in, 1)
	case c == 0xda, c == 0xc5:
		text, err = readCounted(in, 2)
	case c == 0xdb, c == 0xc6:
		text, err = readCounted(in, 4)
	case c >= 0xcc && c <= 0xcf: // unsigned
		number, err = readInteger(in, 1<<(c-0xcc), false)
	case c >= 0xd0 && c <= 0xd3:
		number, err = readInteger(in, 1<<(c-0xd0), true)
	default:
		err = errShape
	}
	return text, number, err
}

func readCounted(in input, size int) ([]byte, error) {
	n, err := readLength(in, size)
	if err != nil {
		return nil, err
	}
	return readBytes(in, n)
}

func readBytes(in input, n int) ([]byte, error) {
	if n > maxField {
		return nil, errBounds
	}
	return in.next(n)
}

// readLength reads a length of size bytes.
func readLength(in input, size int) (int, error) {
	n, err := readInteger(in, size, false)
	if n < 0 {
		return 0, errBounds
	}
	return int(n), err
}

// readInteger reads a number of size bytes. An unsigned number of 8 bytes may come out
// below 0.
func readInteger(in input, size int, signed bool) (int64, error) {
	b, err := in.next(size)
	if err != nil {
		return 0, err
	}
	var full [8]byte
	copy(full[8-size:], b)
	v := int64(binary.BigEndian.Uint64(full[:]))
	if signed {
		shift := 64 - 8*size
		v = v << shift >> shift
	}
	return v, nil
}
