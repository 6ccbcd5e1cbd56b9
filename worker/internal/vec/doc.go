// Package vec combines two arrays of numbers, element by element: what an all-reduce does
// to the buffers of two ranks.
//
// Invariants: a result depends on the operands alone, bit for bit. It is the same on every
// processor, for every length and alignment, with and without the kernels of this package.
// Therefore each NaN that an operation on floats returns is the quiet NaN whose sign and
// payload are zero (0x7fc00000 as a float32), whatever the operands' NaNs are. Max and Min
// order zeros as Go's max and min do: -0 is less than +0. Integers wrap around.
//
// Sums, products, maxima and minima of float32 and float64, sums of float16, bfloat16 and
// integers and all bitwise operations are AVX2 kernels on amd64, where the processor and
// the system have AVX2 and F16C. Everything else, and every other processor, runs the
// plain Go loops of plain.go.
//
// The kernels are generated: change gen/main.go and run go generate in this folder.
package vec

//go:generate go -C gen run .
