package vec

import (
	"math"

	"github.com/gorun/gorun/worker/half"
)

type signed interface{ int8 | int16 | int32 | int64 }

type unsigned interface {
	uint8 | uint16 | uint32 | uint64
}

type float interface{ float32 | float64 }

// plain is Combine in Go. It defines the results that kernels must have.
func plain(op Op, t Type, dst, a, b []byte) {
	switch t {
	case Float64:
		combineFloats[float64](op, dst, a, b)
	case Float32:
		combineFloats[float32](op, dst, a, b)
	case Float16:
		combineHalves(op, dst, a, b, half.ToFloat16)
	case BFloat16:
		combineHalves(op, dst, a, b, half.ToBFloat16)
	case Int8:
		combineIntegers[int8](op, dst, a, b)
	case Int16:
		combineIntegers[int16](op, dst, a, b)
	case Int32:
		combineIntegers[int32](op, dst, a, b)
	case Int64:
		combineIntegers[int64](op, dst, a, b)
	case Uint8:
		combineIntegers[uint8](op, dst, a, b)
	case Uint16:
		combineIntegers[uint16](op, dst, a, b)
	case Uint32:
		combineIntegers[uint32](op, dst, a, b)
	case Uint64:
		combineIntegers[uint64](op, dst, a, b)
	}
}

// quiet returns f, or the one NaN of this package if f is a NaN.
func quiet[T float](f T) T {
	if f != f {
		return T(math.Float64frombits(0x7ff8 << 48))
	}
	return f
}

func combineFloats[T float](op Op, dst, a, b []byte) {
	d, x, y := elements[T](dst), elements[T](a), elements[T](b)
	x, y = x[:len(d)], y[:len(d)]
	switch op {
	case Sum:
		for i := range d {
			d[i] = quiet(x[i] + y[i])
		}
	case Prod:
		for i := range d {
			d[i] = quiet(x[i] * y[i])
		}
	case Min:
		for i := range d {
			d[i] = quiet(min(x[i], y[i]))
		}
	case Max:
		for i := range d {
			d[i] = quiet(max(x[i], y[i]))
		}
	}
}

// float16 is a type of package half. It is computed as float32, whose 24 bits of precision
// are enough that rounding twice changes no sum, product or quotient.
type float16 interface{ Float32() float32 }

func combineHalves[T float16](op Op, dst, a, b []byte, round func(float32) T) {
	d, x, y := elements[T](dst), elements[T](a), elements[T](b)
	x, y = x[:len(d)], y[:len(d)]
	switch op {
	case Sum:
		for i := range d {
			d[i] = round(quiet(x[i].Float32() + y[i].Float32()))
		}
	case Prod:
		for i := range d {
			d[i] = round(quiet(x[i].Float32() * y[i].Float32()))
		}
	case Min:
		for i := range d {
			d[i] = round(quiet(min(x[i].Float32(), y[i].Float32())))
		}
	case Max:
		for i := range d {
			d[i] = round(quiet(max(x[i].Float32(), y[i].Float32())))
		}
	}
}

func combineIntegers[T signed | unsigned](op Op, dst, a, b []byte) {
	d, x, y := elements[T](dst), elements[T](a), elements[T](b)
	x, y = x[:len(d)], y[:len(d)]
	switch op {
	case Sum:
		for i := range d {
			d[i] = x[i] + y[i]
		}
	case Prod:
		for i := range d {
			d[i] = x[i] * y[i]
		}
	case Min:
		for i := range d {
			d[i] = min(x[i], y[i])
		}
	case Max:
		for i := range d {
			d[i] = max(x[i], y[i])
		}
	case And:
		for i := range d {
			d[i] = x[i] & y[i]
		}
	case Or:
		for i := range d {
			d[i] = x[i] | y[i]
		}
	case Xor:
		for i := range d {
			d[i] = x[i] ^ y[i]
		}
	}
}

func divideFloats[T float](b []byte, n int) {
	d, by := elements[T](b), T(n)
	for i := range d {
		d[i] = quiet(d[i] / by)
	}
}

func divideHalves[T float16](b []byte, n int, round func(float32) T) {
	d, by := elements[T](b), float32(n)
	for i := range d {
		d[i] = round(quiet(d[i].Float32() / by))
	}
}

func divideSigned[T signed](b []byte, n int) {
	d, by := elements[T](b), int64(n)
	for i := range d {
		d[i] = T(int64(d[i]) / by)
	}
}

func divideUnsigned[T unsigned](b []byte, n int) {
	d, by := elements[T](b), uint64(n)
	for i := range d {
		d[i] = T(uint64(d[i]) / by)
	}
}
