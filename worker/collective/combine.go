package collective

// combine sets dst to a op b, element by element. dst may be a or b. The caller chooses
// the order of the operands, because it decides which of two NaNs survives.
func combine(op Op, dst, a, b Buffer) {
	switch dst.Type {
	case Float32:
		combineAs[float32](op, dst.Data, a.Data, b.Data)
	case Float64:
		combineAs[float64](op, dst.Data, a.Data, b.Data)
	case Int64:
		combineAs[int64](op, dst.Data, a.Data, b.Data)
	}
}

func combineAs[T Element](op Op, dst, a, b []byte) {
	d, x, y := asElements[T](dst), asElements[T](a), asElements[T](b)
	x, y = x[:len(d)], y[:len(d)]
	switch op {
	case Sum:
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
