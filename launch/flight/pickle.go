package flight

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// Bounds of a dump. A recorder of 2,000 calls with 30 frames each has about half a
// million values.
const (
	maxValues = 6 << 20
	maxString = 64 << 10 // bytes
	maxBytes  = 128 << 20
)

// list is a Python list or tuple. A pickle fills a list after others refer to it.
type list struct{ items []any }

// dict is a Python dict. Keys that are no strings are printed as Python prints them.
type dict map[string]any

// mark is what MARK pushes.
type mark struct{}

// global is the name of a Python function.
type global string

// Functions that torch's pickler writes around lists with a type. Each returns its
// first argument. A pickle that names another function is refused.
var typedLists = map[global]bool{
	"torch.jit._pickle restore_type_tag":  true,
	"torch.jit._pickle build_intlist":     true,
	"torch.jit._pickle build_doublelist":  true,
	"torch.jit._pickle build_boollist":    true,
	"torch.jit._pickle build_tensorlist":  true,
	"torch.jit._pickle build_tensor_list": true,
}

// errValues says that a pickle is larger than any dump.
var errValues = errors.New("it has more values than a dump of a flight recorder")

// unpickler reads the part of Python's pickle protocol 2 that torch's recorder writes:
// None, booleans, integers, floats, strings, lists, tuples and dicts. It calls nothing.
type unpickler struct {
	in     *bufio.Reader
	stack  []any
	memo   map[uint32]any
	values int
}

// unpickle reads one value. It reads at most maxBytes.
func unpickle(r io.Reader) (any, error) {
	u := &unpickler{in: bufio.NewReader(io.LimitReader(r, maxBytes)), memo: map[uint32]any{}}
	for {
		op, err := u.in.ReadByte()
		if err != nil {
			return nil, fmt.Errorf("it ends too early: %w", io.ErrUnexpectedEOF)
		}
		if op == '.' {
			return u.pop()
		}
		if err := u.run(op); err != nil {
			return nil, err
		}
	}
}

// run carries out one instruction.
func (u *unpickler) run(op byte) error {
	switch op {
	case 0x80: // PROTO
		_, err := u.bytes(1)
		return err
	case 'N':
		return u.push(nil)
	case 0x88, 0x89: // NEWTRUE, NEWFALSE
		return u.push(op == 0x88)
	case 'K', 'M', 'J', 0x8a: // BININT1, BININT2, BININT, LONG1
		return u.integer(op)
	case 'G': // BINFLOAT
		b, err := u.bytes(8)
		if err != nil {
			return err
		}
		return u.push(math.Float64frombits(binary.BigEndian.Uint64(b)))
	case 'X', 'T', 'U', 0x8c: // BINUNICODE, BINSTRING, SHORT_BINSTRING, SHORT_BINUNICODE
		return u.text(op)
	case '}':
		return u.push(dict{})
	case ']', ')': // EMPTY_LIST, EMPTY_TUPLE
		return u.push(&list{})
	case '(':
		return u.push(mark{})
	case 't', 0x85, 0x86, 0x87: // TUPLE, TUPLE1, TUPLE2, TUPLE3
		return u.tuple(op)
	case 'a', 'e': // APPEND, APPENDS
		return u.appendItems(op)
	case 's', 'u': // SETITEM, SETITEMS
		return u.setItems(op)
	case 'q', 'r', 'h', 'j': // BINPUT, LONG_BINPUT, BINGET, LONG_BINGET
		return u.remember(op)
	case 'c': // GLOBAL
		return u.global()
	case 'R': // REDUCE
		return u.reduce()
	}
	return fmt.Errorf("it has the instruction %#02x, which no flight recorder writes", op)
}

func (u *unpickler) push(v any) error {
	if u.values++; u.values > maxValues {
		return errValues
	}
	u.stack = append(u.stack, v)
	return nil
}

func (u *unpickler) pop() (any, error) {
	if len(u.stack) == 0 {
		return nil, errors.New("it takes a value from an empty stack")
	}
	v := u.stack[len(u.stack)-1]
	u.stack = u.stack[:len(u.stack)-1]
	if _, isMark := v.(mark); isMark {
		return nil, errors.New("it has a mark in the place of a value")
	}
	return v, nil
}

// popMarked returns the values above the last mark and removes both.
func (u *unpickler) popMarked() ([]any, error) {
	for i := len(u.stack) - 1; i >= 0; i-- {
		if _, isMark := u.stack[i].(mark); isMark {
			items := append([]any(nil), u.stack[i+1:]...)
			u.stack = u.stack[:i]
			return items, nil
		}
	}
	return nil, errors.New("it has no mark")
}

// bytes reads n bytes, at most maxString.
func (u *unpickler) bytes(n uint64) ([]byte, error) {
	if n > maxString {
		return nil, fmt.Errorf("it has a string of %d bytes", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(u.in, b); err != nil {
		return nil, fmt.Errorf("it ends too early: %w", io.ErrUnexpectedEOF)
	}
	return b, nil
}

// number reads an unsigned integer of size bytes.
func (u *unpickler) number(size int) (uint64, error) {
	b, err := u.bytes(uint64(size))
	if err != nil {
		return 0, err
	}
	var wide [8]byte
	copy(wide[:], b)
	return binary.LittleEndian.Uint64(wide[:]), nil
}

func (u *unpickler) integer(op byte) error {
	size := map[byte]int{'K': 1, 'M': 2, 'J': 4}[op]
	if op == 0x8a {
		b, err := u.bytes(1)
		if err != nil {
			return err
		}
		if size = int(b[0]); size > 8 {
			return fmt.Errorf("it has an integer of %d bytes", size)
		}
	}
	n, err := u.number(size)
	if err != nil {
		return err
	}
	if op == 0x8a || op == 'J' { // signed
		shift := 64 - 8*size
		return u.push(int64(n<<shift) >> shift)
	}
	return u.push(int64(n))
}

func (u *unpickler) text(op byte) error {
	size := 4
	if op == 'U' || op == 0x8c {
		size = 1
	}
	n, err := u.number(size)
	if err != nil {
		return err
	}
	b, err := u.bytes(n)
	if err != nil {
		return err
	}
	return u.push(string(b))
}

func (u *unpickler) tuple(op byte) error {
	if op == 't' {
		items, err := u.popMarked()
		if err != nil {
			return err
		}
		return u.push(&list{items})
	}
	items := make([]any, op-0x84)
	for i := len(items) - 1; i >= 0; i-- {
		v, err := u.pop()
		if err != nil {
			return err
		}
		items[i] = v
	}
	return u.push(&list{items})
}

// arguments returns what a single instruction or its form for several ones takes.
func (u *unpickler) arguments(op, single byte, n int) ([]any, error) {
	if op != single {
		return u.popMarked()
	}
	items := make([]any, n)
	for i := n - 1; i >= 0; i-- {
		v, err := u.pop()
		if err != nil {
			return nil, err
		}
		items[i] = v
	}
	return items, nil
}

func (u *unpickler) appendItems(op byte) error {
	items, err := u.arguments(op, 'a', 1)
	if err != nil {
		return err
	}
	if len(u.stack) > 0 {
		if l, ok := u.stack[len(u.stack)-1].(*list); ok {
			l.items = append(l.items, items...)
			return nil
		}
	}
	return errors.New("it appends to what is no list")
}

func (u *unpickler) setItems(op byte) error {
	items, err := u.arguments(op, 's', 2)
	if err != nil {
		return err
	}
	if len(u.stack) == 0 || len(items)%2 != 0 {
		return errors.New("it has a key without a value")
	}
	d, ok := u.stack[len(u.stack)-1].(dict)
	if !ok {
		return errors.New("it sets keys of what is no dict")
	}
	for i := 0; i < len(items); i += 2 {
		switch key := items[i].(type) {
		case string:
			d[key] = items[i+1]
		case int64:
			d[strconv.FormatInt(key, 10)] = items[i+1]
		default:
			return fmt.Errorf("it has a key of type %T", key)
		}
	}
	return nil
}

// remember puts the top of the stack into the memo, or pushes a value of the memo.
func (u *unpickler) remember(op byte) error {
	size := 1
	if op == 'r' || op == 'j' {
		size = 4
	}
	n, err := u.number(size)
	if err != nil {
		return err
	}
	if op == 'h' || op == 'j' {
		v, known := u.memo[uint32(n)]
		if !known {
			return fmt.Errorf("it refers to value %d, which is not there", n)
		}
		return u.push(v)
	}
	v, err := u.pop()
	if err != nil {
		return err
	}
	u.memo[uint32(n)] = v
	return u.push(v)
}

// global reads the name of a function: two lines, module and name.
func (u *unpickler) global() error {
	var name string
	for i := range 2 {
		line, err := u.in.ReadSlice('\n')
		if err != nil {
			return errors.New("it has a name without an end")
		}
		if i > 0 {
			name += " "
		}
		name += string(line[:len(line)-1])
	}
	if !typedLists[global(name)] {
		return fmt.Errorf("it wants to call %.100q, which no flight recorder writes", name)
	}
	return u.push(global(name))
}

func (u *unpickler) reduce() error {
	args, err := u.pop()
	if err != nil {
		return err
	}
	function, err := u.pop()
	if err != nil {
		return err
	}
	l, ok := args.(*list)
	if _, known := function.(global); !known || !ok || len(l.items) == 0 {
		return errors.New("it calls what is no function")
	}
	return u.push(l.items[0])
}
