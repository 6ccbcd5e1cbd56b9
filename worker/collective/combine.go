package collective

import "github.com/gorun/gorun/worker/half"

// combine sets dst to a op b, element by element. dst may be a or b. The caller chooses
// the order of the operands, because it decides which of two NaNs survives. An average
// is summed here and divided by finish.
func combine(op Op, dst, a, b Buffer) {
	switch dst.Type {
	case Float32:
		combineFloats[float32](op, dst.Data, a.Data, b.Data)
	case Float64:
		combineFloats[float64](op, dst.Data, a.Data, b.Data)
	case Int8:
		combineIntegers[int8](op, dst.Data, a.Data, b.Data)
	case Uint8:
		combineIntegers[uint8](op, dst.Data, a.Data, b.Data)
	case Int16:
		combineIntegers[int16](op, dst.Data, a.Data, b.Data)
	case Uint16:
		combineIntegers[uint16](op, dst.Data, a.Data, b.Data)
	case Int32:
		combineIntegers[int32](op, dst.Data, a.Data, b.Data)
	case Uint32:
		combineIntegers[uint32](op, dst.Data, a.Data, b.Data)
	case Int64:
		combineIntegers[int64](op, dst.Data, a.Data, b.Data)
	case Uint64:
		combineIntegers[uint64](op, dst.Data, a.Data, b.Data)
	case Float16:
		combineHalves(op, dst.Data, a.Data, b.Data, half.ToFloat16)
	case BFloat16:
		combineHalves(op, dst.Data, a.Data, b.Data, half.ToBFloat16)
	}
}

func combineFloats[T float32 | float64](op Op, dst, a, b []byte) {
	d, x, y := asElements[T](dst), asElements[T](a), asElements[T](b)
	x, y = x[:len(d)], y[:len(d)]
	switch op {
	case Sum, Avg:
		for i := range d {
			d[i] = x[i] + y[i]
		}
	case Max:
		for i := range d {
			d[i] = max(x[i], y[i])
		}
	case Min:
		for i := range d {
			d[i] = min(x[i], y[i])
		}
	case Prod:
		for i := range d {
			d[i] = x[i] * y[i]
		}
	}
}

type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

func combineIntegers[T integer](op Op, dst, a, b []byte) {
	d, x, y := asElements[T](dst), asElements[T](a), asElements[T](b)
	x, y = x[:len(d)], y[:len(d)]
	switch op {
	case Sum, Avg:
		for i := range d {
			d[i] = x[i] + y[i]
		}
	case Max:
		for i := range d {
			d[i] = max(x[i], y[i])
		}
	case Min:
		for i := range d {
			d[i] = min(x[i], y[i])
		}
	case Prod:
		for i := range d {
			d[i] = x[i] * y[i]
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

// float16 is a type of package half.
type float16 interface {
	half.Float16 | half.BFloat16
	Float32() float32
}

func combineHalves[T float16](op Op, dst, a, b []byte, round func(float32) T) {
	d, x, y := asElements[T](dst), asElements[T](a), asElements[T](b)
	x, y = x[:len(d)], y[:len(d)]
	for i := range d {
		v, w := x[i].Float32(), y[i].Float32()
		switch op {
		case Sum, Avg:
			v += w
		case Max:
			v = max(v, w)
		case Min:
			v = min(v, w)
		case Prod:
			v *= w
		}
		d[i] = round(v)
	}
}

// finish turns b, a reduction over n ranks, into the result: it divides an average's sum.
func finish(op Op, b Buffer, n int) {
	if op != Avg {
		return
	}
	switch b.Type {
	case Float32:
		divide(asElements[float32](b.Data), float32(n))
	case Float64:
		divide(asElements[float64](b.Data), float64(n))
	case Int8:
		divideWide(asElements[int8](b.Data), int64(n))
	case Uint8:
		divideWide(asElements[uint8](b.Data), int64(n))
	case Int16:
		divideWide(asElements[int16](b.Data), int64(n))
	case Uint16:
		divideWide(asElements[uint16](b.Data), int64(n))
	case Int32:
		divideWide(asElements[int32](b.Data), int64(n))
	case Uint32:
		divideWide(asElements[uint32](b.Data), int64(n))
	case Int64:
		divide(asElements[int64](b.Data), int64(n))
	case Uint64:
		divide(asElements[uint64](b.Data), uint64(n))
	case Float16:
		for i, d := 0, asElements[half.Float16](b.Data); i < len(d); i++ {
			d[i] = half.ToFloat16(d[i].Float32() / float32(n))
		}
	case BFloat16:
		for i, d := 0, asElements[half.BFloat16](b.Data); i < len(d); i++ {
			d[i] = half.ToBFloat16(d[i].Float32() / float32(n))
		}
	}
}

func divide[T float32 | float64 | int64 | uint64](d []T, n T) {
	for i := range d {
		d[i] /= n
	}
}

// divideWide divides as int64, since n may not fit into T.
func divideWide[T integer](d []T, n int64) {
	for i := range d {
		d[i] = T(int64(d[i]) / n)
	}
}
