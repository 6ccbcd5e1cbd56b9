// Package half has the two floating-point types of 16 bits. They are for storage and
// messages: arithmetic converts to float32 and back.
//
// Invariants: a conversion from float32 rounds to the nearest value, and to the even one
// of two that are equally near. NaN stays NaN. A conversion to float32 is exact.
package half

import "math"

// Float16 is IEEE 754's binary16: 5 bits of exponent, 10 of fraction.
type Float16 struct{ bits uint16 }

// BFloat16 is the upper half of a float32: 8 bits of exponent, 7 of fraction.
type BFloat16 struct{ bits uint16 }

// ToFloat16 returns the Float16 nearest to f.
func ToFloat16(f float32) Float16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	exp, frac := int(b>>23&0xff)-127, b&0x7fffff
	switch {
	case exp == 128 && frac != 0: // NaN, quiet
		return Float16{sign | 0x7e00 | uint16(frac>>13)}
	case exp > 15:
		return Float16{sign | 0x7c00}
	case exp >= -14:
		return Float16{sign + roundShift(uint32(exp+15)<<23|frac, 13)}
	case exp >= -25: // subnormal
		return Float16{sign + roundShift(frac|0x800000, uint(-1-exp))}
	}
	return Float16{sign}
}

// roundShift returns v >> n, rounded to the nearest, ties to even. A carry runs into the
// exponent, which is right.
func roundShift(v uint32, n uint) uint16 {
	half, rest := uint32(1)<<(n-1), v&(1<<n-1)
	v >>= n
	if rest > half || rest == half && v&1 == 1 {
		v++
	}
	return uint16(v)
}

// Float32 returns h's value.
func (h Float16) Float32() float32 {
	sign, exp, frac := uint32(h.bits&0x8000)<<16, uint32(h.bits>>10&0x1f), uint32(h.bits&0x3ff)
	switch {
	case exp == 31:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	case exp != 0:
		return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
	}
	f := float32(frac) / (1 << 24) // exact
	return math.Float32frombits(sign | math.Float32bits(f))
}

// ToBFloat16 returns the BFloat16 nearest to f.
func ToBFloat16(f float32) BFloat16 {
	b := math.Float32bits(f)
	if f != f {
		return BFloat16{uint16(b>>16) | 0x40} // quiet, and no infinity
	}
	return BFloat16{uint16((b + 0x7fff + b>>16&1) >> 16)}
}

// Float32 returns h's value.
func (h BFloat16) Float32() float32 { return math.Float32frombits(uint32(h.bits) << 16) }

// Bits returns h's bits.
func (h Float16) Bits() uint16 { return h.bits }

// Bits returns h's bits.
func (h BFloat16) Bits() uint16 { return h.bits }

// Float16FromBits returns the Float16 of these bits.
func Float16FromBits(b uint16) Float16 { return Float16{b} }

// BFloat16FromBits returns the BFloat16 of these bits.
func BFloat16FromBits(b uint16) BFloat16 { return BFloat16{b} }
