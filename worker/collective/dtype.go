package collective

import (
	"fmt"
	"reflect"

	"github.com/gorun/gorun/worker/half"
	"github.com/gorun/gorun/worker/internal/vec"
)

// Number is an element with Go's own arithmetic.
type Number interface {
	~float32 | ~float64 |
		~int | ~int8 | ~int16 | ~int32 | ~int64 |
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Element is what a buffer can hold.
type Element interface {
	Number | half.Float16 | half.BFloat16
}

// DType names an element type on the wire; the values are part of the protocol.
type DType uint8

// Element types. None is for calls that carry no data. An int is an Int64 or an Int32,
// a byte is a Uint8.
const (
	None     DType = 0
	Float32  DType = 1
	Float64  DType = 2
	Int64    DType = 3
	Int8     DType = 4
	Uint8    DType = 5
	Int16    DType = 6
	Uint16   DType = 7
	Int32    DType = 8
	Uint32   DType = 9
	Uint64   DType = 10
	Float16  DType = 11
	BFloat16 DType = 12
)

// Size is the number of bytes of one element.
func (d DType) Size() int {
	switch d {
	case Int8, Uint8:
		return 1
	case Int16, Uint16, Float16, BFloat16:
		return 2
	case Float32, Int32, Uint32:
		return 4
	case Float64, Int64, Uint64:
		return 8
	}
	return 0
}

func (d DType) String() string {
	switch d {
	case None:
		return "nothing"
	case Float32:
		return "float32"
	case Float64:
		return "float64"
	case Int64:
		return "int64"
	case Int8:
		return "int8"
	case Uint8:
		return "uint8"
	case Int16:
		return "int16"
	case Uint16:
		return "uint16"
	case Int32:
		return "int32"
	case Uint32:
		return "uint32"
	case Uint64:
		return "uint64"
	case Float16:
		return "float16"
	case BFloat16:
		return "bfloat16"
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}

// isFloat reports whether d's elements have fractions, and so no bitwise operations.
func (d DType) isFloat() bool {
	return d == Float32 || d == Float64 || d == Float16 || d == BFloat16
}

// Op says how a reduction combines two elements; the values are part of the protocol.
type Op uint8

// Operations. Max and Min of floats are NaN if either operand is. Avg is the sum divided
// by the number of ranks; of integers it is cut towards zero. And, Or and Xor are for
// integers only.
const (
	NoOp Op = 0
	Sum  Op = 1
	Max  Op = 2
	Min  Op = 3
	Prod Op = 4
	Avg  Op = 5
	And  Op = 6
	Or   Op = 7
	Xor  Op = 8
)

func (o Op) String() string {
	switch o {
	case NoOp:
		return "none"
	case Sum:
		return "sum"
	case Max:
		return "max"
	case Min:
		return "min"
	case Prod:
		return "prod"
	case Avg:
		return "average"
	case And:
		return "and"
	case Or:
		return "or"
	case Xor:
		return "xor"
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// check says why o cannot combine elements of type d.
func (o Op) check(d DType) error {
	switch {
	case o < Sum || o > Xor:
		return fmt.Errorf("unknown operation %v", o)
	case o >= And && d.isFloat():
		return fmt.Errorf("%v is for integers, the buffer holds %v", o, d)
	}
	return nil
}

// Combine sets dst to a op b, element by element of type t. dst may be a or b. The order of the
// operands does not matter, not even to a NaN. An average is summed here and divided by
// Finish.
func Combine(op Op, t DType, dst, a, b []byte) {
	vec.Combine(vecOps[op], vecTypes[t], dst, a, b)
}

// Finish turns b, a reduction over n ranks, into the result: it divides an average's sum.
func Finish(op Op, t DType, b []byte, n int) {
	if op == Avg {
		vec.Divide(vecTypes[t], b, n)
	}
}

var (
	vecOps = [...]vec.Op{
		Sum: vec.Sum, Max: vec.Max, Min: vec.Min, Prod: vec.Prod,
		Avg: vec.Sum, And: vec.And, Or: vec.Or, Xor: vec.Xor,
	}
	vecTypes = [...]vec.Type{
		Float32: vec.Float32, Float64: vec.Float64, Float16: vec.Float16, BFloat16: vec.BFloat16,
		Int8: vec.Int8, Int16: vec.Int16, Int32: vec.Int32, Int64: vec.Int64,
		Uint8: vec.Uint8, Uint16: vec.Uint16, Uint32: vec.Uint32, Uint64: vec.Uint64,
	}
)

// Buffer is a slice of elements without its Go type: Data is the memory of the
// slice itself, aligned for Type, Count elements long.
type Buffer struct {
	Type  DType
	Count int
	Data  []byte
}

// Of describes buf; writing to the result's Data writes to buf.
func Of[T Element](buf []T) Buffer {
	return Buffer{Type: typeOf[T](), Count: len(buf), Data: asBytes(buf)}
}

func typeOf[T Element]() DType {
	t := reflect.TypeFor[T]()
	switch t.Kind() {
	case reflect.Float32:
		return Float32
	case reflect.Float64:
		return Float64
	case reflect.Int8:
		return Int8
	case reflect.Uint8:
		return Uint8
	case reflect.Int16:
		return Int16
	case reflect.Uint16:
		return Uint16
	case reflect.Int32:
		return Int32
	case reflect.Uint32:
		return Uint32
	case reflect.Int64:
		return Int64
	case reflect.Uint64:
		return Uint64
	case reflect.Int:
		if t.Size() == 4 {
			return Int32
		}
		return Int64
	case reflect.Uint:
		if t.Size() == 4 {
			return Uint32
		}
		return Uint64
	}
	if t == reflect.TypeFor[half.Float16]() {
		return Float16
	}
	return BFloat16
}

// Slice returns the elements of b from index from up to, but without, index to.
func (b Buffer) Slice(from, to int) Buffer {
	n := b.Type.Size()
	return Buffer{b.Type, to - from, b.Data[from*n : to*n]}
}

// Scratch is memory that grows to the largest buffer that was asked of it. The zero value
// is ready for use.
type Scratch struct{ b []byte }

// Buffer returns count elements of any content, which stay valid until the next call.
func (s *Scratch) Buffer(t DType, count int) Buffer {
	n := count * t.Size()
	if cap(s.b) < n {
		s.b = scratch(n)
	}
	return Buffer{t, count, s.b[:n]}
}

// overlaps reports whether a and b have memory in common.
func (b *Buffer) overlaps(a *Buffer) bool {
	if len(a.Data) == 0 || len(b.Data) == 0 {
		return false
	}
	x, y := addressOf(a.Data), addressOf(b.Data)
	return x < y+uintptr(len(b.Data)) && y < x+uintptr(len(a.Data))
}
