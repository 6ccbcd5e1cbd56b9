package half

import (
	"math"
	"testing"
)

// TestEveryValueSurvives converts every 16-bit pattern to float32 and back.
func TestEveryValueSurvives(t *testing.T) {
	for b := range 1 << 16 {
		h, bf := Float16FromBits(uint16(b)), BFloat16FromBits(uint16(b))
		if f := h.Float32(); f != f {
			if g := ToFloat16(f).Float32(); g == g {
				t.Errorf("float16 %04x: NaN became %v", b, g)
			}
		} else if got := ToFloat16(f); got != h {
			t.Errorf("float16 %04x = %v became %04x", b, f, got.Bits())
		}
		if f := bf.Float32(); f != f {
			if g := ToBFloat16(f).Float32(); g == g {
				t.Errorf("bfloat16 %04x: NaN became %v", b, g)
			}
		} else if got := ToBFloat16(f); got != bf {
			t.Errorf("bfloat16 %04x = %v became %04x", b, f, got.Bits())
		}
	}
}

// TestRounding checks the middle between each value and the next: it goes to the even
// one, and a little more or less to the nearer one.
func TestRounding(t *testing.T) {
	check := func(name string, b uint16, value func(uint16) float32, bits func(float32) uint16) {
		low, high := value(b), value(b+1)
		mid := float32((float64(low) + float64(high)) / 2)
		for _, c := range []struct {
			f    float32
			want uint16
		}{
			{mid, b + b&1},
			{math.Nextafter32(mid, low), b},
			{math.Nextafter32(mid, high), b + 1},
			{-mid, (b + b&1) | 0x8000},
		} {
			if got := bits(c.f); got != c.want {
				t.Errorf("%s: %v became %04x, want %04x", name, c.f, got, c.want)
			}
		}
	}
	for b := range uint16(0x7bff) {
		check("float16", b, func(b uint16) float32 { return Float16FromBits(b).Float32() }, func(f float32) uint16 { return ToFloat16(f).Bits() })
	}
	for b := uint16(0x80); b < 0x7f7e; b++ {
		check("bfloat16", b, func(b uint16) float32 { return BFloat16FromBits(b).Float32() }, func(f float32) uint16 { return ToBFloat16(f).Bits() })
	}
	if got := ToFloat16(65520).Bits(); got != 0x7c00 {
		t.Errorf("65520 became %04x, want infinity", got)
	}
	if got := ToBFloat16(math.MaxFloat32).Bits(); got != 0x7f80 {
		t.Errorf("the greatest float32 became %04x, want infinity", got)
	}
}
