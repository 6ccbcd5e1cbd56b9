package vec

import "math"

// format is one of the two floats of 16 bits. Both are computed as float32, whose 24 bits
// of precision are enough that the second rounding changes no sum, product or quotient.
type format bool

const (
	float16  format = false
	bfloat16 format = true
)

// widen returns the float32 with the value of h.
func (f format) widen(h uint16) float32 {
	if f == bfloat16 {
		return math.Float32frombits(uint32(h) << 16)
	}
	return Float16ToFloat32(h)
}

// round returns the nearest value of the format; of two, the even one.
func (f format) round(x float32) uint16 {
	if f == bfloat16 {
		return Float32ToBFloat16(x)
	}
	return Float32ToFloat16(x)
}

// Float32ToBFloat16 returns the bfloat16 nearest to x; of two, the even one.
func Float32ToBFloat16(x float32) uint16 {
	if x != x {
		return 0x7fc0
	}
	bits := math.Float32bits(x)
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// BFloat16ToFloat32 returns the value of the bfloat16 h.
func BFloat16ToFloat32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// Float16ToFloat32 returns the value of the float16 h.
func Float16ToFloat32(h uint16) float32 {
	sign, exponent, mantissa := uint32(h&0x8000)<<16, uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exponent {
	case 0: // zero or subnormal: mantissa * 2^-24, which a float32 has exactly
		return math.Float32frombits(math.Float32bits(float32(mantissa)/(1<<24)) | sign)
	case 0x1f: // infinity or NaN
		return math.Float32frombits(sign | 0x7f800000 | mantissa<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | mantissa<<13)
}

// Float32ToFloat16 returns the float16 nearest to x; of two, the even one.
func Float32ToFloat16(x float32) uint16 {
	if x != x {
		return 0x7e00
	}
	bits := math.Float32bits(x)
	sign, abs := uint16(bits>>16&0x8000), bits&0x7fffffff
	switch {
	case abs >= 0x477ff000: // 65520, half a step above the largest float16, rounds to infinity
		return sign | 0x7c00
	case abs < 0x38800000: // below 2^-14 the step is 2^-24, as that of floats from 1/2 to 1 is
		return sign | uint16(math.Float32bits(math.Float32frombits(abs)+0.5)-0x3f000000)
	}
	return sign | uint16((abs+0xfff+abs>>13&1)>>13-112<<10)
}
