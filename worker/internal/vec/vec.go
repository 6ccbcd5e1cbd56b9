package vec

import (
	"fmt"
	"unsafe"

	"github.com/gorun/gorun/worker/half"
)

// Type is the type of an array's elements.
type Type uint8

// Element types. Float16 is IEEE 754's binary16. BFloat16 is the upper half of a float32.
const (
	Float64 Type = iota
	Float32
	Float16
	BFloat16
	Int8
	Int16
	Int32
	Int64
	Uint8
	Uint16
	Uint32
	Uint64
	numTypes
)

// Size returns the number of bytes of one element.
func (t Type) Size() int {
	switch t {
	case Int8, Uint8:
		return 1
	case Float16, BFloat16, Int16, Uint16:
		return 2
	case Float32, Int32, Uint32:
		return 4
	}
	return 8
}

func (t Type) String() string {
	if t >= numTypes {
		return fmt.Sprintf("vec.Type(%d)", uint8(t))
	}
	return [numTypes]string{
		"float64", "float32", "float16", "bfloat16",
		"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
	}[t]
}

// Op is an operation on two elements.
type Op uint8

// Operations. And, Or and Xor are for integers.
const (
	Sum Op = iota
	Prod
	Min
	Max
	And
	Or
	Xor
	numOps
)

func (op Op) String() string {
	if op >= numOps {
		return fmt.Sprintf("vec.Op(%d)", uint8(op))
	}
	return [numOps]string{"sum", "prod", "min", "max", "and", "or", "xor"}[op]
}

// Has reports whether op is defined for elements of type t.
func Has(op Op, t Type) bool {
	return op < numOps && t < numTypes && (op < And || t >= Int8)
}

// lanes is the number of bytes that a kernel handles in one step. A kernel takes
// multiples of it.
const lanes = 32

// mostAtOnce bounds the bytes of one kernel call. The Go scheduler cannot interrupt a
// kernel, and a garbage collection waits until it returns: about 10 µs.
const mostAtOnce = 128 << 10

// kernel sets n bytes at dst to a op b; n is a multiple of lanes.
type kernel func(dst, a, b *byte, n int)

// Combine sets dst to a op b, element by element. The three have the same length, a
// multiple of t's size, and are aligned for t. dst may be a or b, but must not overlap
// them otherwise. Combine panics if Has(op, t) is false or if a or b is shorter than dst.
func Combine(op Op, t Type, dst, a, b []byte) {
	if !Has(op, t) {
		panic(fmt.Sprintf("vec: no %v of %v", op, t))
	}
	a, b = a[:len(dst)], b[:len(dst)]
	if run := kernels[op][t]; run != nil {
		for len(dst) >= lanes {
			n := min(len(dst), mostAtOnce) &^ (lanes - 1)
			run(&dst[0], &a[0], &b[0], n)
			dst, a, b = dst[n:], a[n:], b[n:]
		}
	}
	plain(op, t, dst, a, b)
}

// Divide divides each element of b by n, which is at least 1: it turns the sum over n
// ranks into their average. Integers are truncated towards zero.
func Divide(t Type, b []byte, n int) {
	if n < 1 || t >= numTypes {
		panic(fmt.Sprintf("vec: cannot divide %v by %d", t, n))
	}
	switch t {
	case Float64:
		divideFloats[float64](b, n)
	case Float32:
		divideFloats[float32](b, n)
	case Float16:
		divideHalves(b, n, half.ToFloat16)
	case BFloat16:
		divideHalves(b, n, half.ToBFloat16)
	case Int8:
		divideSigned[int8](b, n)
	case Int16:
		divideSigned[int16](b, n)
	case Int32:
		divideSigned[int32](b, n)
	case Int64:
		divideSigned[int64](b, n)
	case Uint8:
		divideUnsigned[uint8](b, n)
	case Uint16:
		divideUnsigned[uint16](b, n)
	case Uint32:
		divideUnsigned[uint32](b, n)
	case Uint64:
		divideUnsigned[uint64](b, n)
	}
}

// elements returns the memory of b as elements.
func elements[T any](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}
