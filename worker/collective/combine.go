package collective

import "github.com/gorun/gorun/worker/internal/vec"

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
