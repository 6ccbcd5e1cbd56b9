package collective

import "fmt"

// Element is what a buffer can hold.
type Element interface{ float32 | float64 | int64 }

// DType names an element type on the wire; the values are part of the protocol.
type DType uint8

// Element types. None is for calls that carry no data.
const (
	None    DType = 0
	Float32 DType = 1
	Float64 DType = 2
	Int64   DType = 3
)

// Size is the number of bytes of one element.
func (d DType) Size() int {
	switch d {
	case Float32:
		return 4
	case Float64, Int64:
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
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}

// Op says how an all-reduce combines two elements; the values are part of the protocol.
type Op uint8

// Operations. Max and Min of floats are NaN if either operand is.
const (
	NoOp Op = 0
	Sum  Op = 1
	Max  Op = 2
	Min  Op = 3
	Prod Op = 4
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
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// Buffer is a slice of elements without its Go type: Data is the memory of the
// slice itself, aligned for Type, Count elements long.
type Buffer struct {
	Type  DType
	Count int
	Data  []byte
}

// Of describes buf; writing to the result's Data writes to buf.
func Of[T Element](buf []T) Buffer {
	var zero T
	b := Buffer{Count: len(buf), Data: asBytes(buf)}
	switch any(zero).(type) {
	case float32:
		b.Type = Float32
	case float64:
		b.Type = Float64
	case int64:
		b.Type = Int64
	}
	return b
}

// slice returns the elements of b from index from up to, but without, index to.
func (b Buffer) slice(from, to int) Buffer {
	n := b.Type.Size()
	return Buffer{b.Type, to - from, b.Data[from*n : to*n]}
}
