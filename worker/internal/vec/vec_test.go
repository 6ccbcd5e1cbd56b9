package vec

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"os"
	"testing"
)

// operands returns n elements: random bits, and among floats many NaNs, infinities, zeros
// of both signs and subnormals, so that each meets each.
func operands(r *rand.Rand, t Type, n int) []byte {
	b := make([]byte, n*t.Size())
	for i := range n {
		bits := r.Uint64()
		if r.IntN(2) == 0 {
			bits = special(t, r.IntN(10))
		}
		for j := range t.Size() {
			b[i*t.Size()+j] = byte(bits >> (8 * j))
		}
	}
	return b
}

// special returns the bits of a float at which an operation is easily wrong.
func special(t Type, i int) uint64 {
	size := 8 * t.Size()
	fraction := map[Type]int{Float64: 52, Float32: 23, Float16: 10, BFloat16: 7}[t]
	sign := uint64(1) << (size - 1)
	infinity := sign - 1<<fraction
	return []uint64{
		0, sign, infinity, sign | infinity, 1, sign | 1, infinity - 1, sign | (infinity - 1),
		infinity | 1,                  // a signalling NaN
		sign | infinity | 5 | sign>>1, // a NaN with a payload
	}[i]
}

// TestKernelsEqualPlainGo compares Combine with plain bit for bit: every operation and
// type, lengths below, at and above the steps of a kernel, every alignment.
func TestKernelsEqualPlainGo(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for typ := range numTypes {
		size := typ.Size()
		a, b := operands(r, typ, 256), operands(r, typ, 256)
		dst, want := make([]byte, 256*size), make([]byte, 256*size)
		for op := range numOps {
			if !Has(op, typ) {
				continue
			}
			for n := range 130 {
				for shift := range max(1, lanes/size) {
					x, y := a[shift*size:][:n*size], b[(n+3*shift)%100*size:][:n*size]
					got := dst[(5*shift)%lanes*size:][:n*size]
					Combine(op, typ, got, x, y)
					plain(op, typ, want[:n*size], x, y)
					if !bytes.Equal(got, want[:n*size]) {
						t.Fatalf("%v of %d %v, shifted by %d: got %x, want %x, of %x and %x", op, n, typ, shift, got, want[:n*size], x, y)
					}
				}
			}
		}
	}
}

// TestDstMayBeAnOperand combines in place, over more bytes than one kernel call takes.
func TestDstMayBeAnOperand(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for typ := range numTypes {
		n := 2*mostAtOnce/typ.Size() + 17
		a, b := operands(r, typ, n), operands(r, typ, n)
		want := make([]byte, len(a))
		plain(Sum, typ, want, a, b)
		for i, place := range [][]byte{a, b} {
			dst := bytes.Clone(place)
			x, y := a, b
			if i == 0 {
				x = dst
			} else {
				y = dst
			}
			Combine(Sum, typ, dst, x, y)
			if !bytes.Equal(dst, want) {
				t.Errorf("the sum of %v is another if dst is operand %d", typ, i)
			}
		}
	}
}

func TestCombineWritesOnlyDst(t *testing.T) {
	for n := range 70 {
		b := bytes.Repeat([]byte{1}, n)
		dst := bytes.Repeat([]byte{9}, n+2)
		Combine(Sum, Int8, dst[1:1+n], b, b)
		if want := append(append([]byte{9}, bytes.Repeat([]byte{2}, n)...), 9); !bytes.Equal(dst, want) {
			t.Fatalf("%d bytes: got %v, want %v", n, dst, want)
		}
	}
}

func bits32(f ...float32) []byte {
	b := make([]byte, 4*len(f))
	copy(elements[float32](b), f)
	return b
}

// TestFloats has the rules that a kernel could get wrong together with plain Go.
func TestFloats(t *testing.T) {
	inf, negZero := float32(math.Inf(1)), float32(math.Copysign(0, -1))
	nan := math.Float32frombits(0xffc12345)
	const theNaN = 0x7fc00000
	for _, c := range []struct {
		op   Op
		a, b float32
		want uint32
	}{
		{Sum, 1, 2, math.Float32bits(3)},
		{Sum, nan, 1, theNaN},
		{Sum, inf, -inf, theNaN},
		{Sum, negZero, negZero, 1 << 31},
		{Prod, 3, -2, math.Float32bits(-6)},
		{Prod, inf, 0, theNaN},
		{Min, 0, negZero, 1 << 31},
		{Min, negZero, 0, 1 << 31},
		{Max, 0, negZero, 0},
		{Max, negZero, 0, 0},
		{Min, nan, 1, theNaN},
		{Min, 1, nan, theNaN},
		{Max, nan, inf, theNaN},
		{Max, -5, -3, math.Float32bits(-3)},
		{Min, -5, -3, math.Float32bits(-5)},
	} {
		for _, n := range []int{1, 8} { // plain Go, the kernel
			a, b := bytes.Repeat(bits32(c.a), n), bytes.Repeat(bits32(c.b), n)
			Combine(c.op, Float32, a, a, b)
			for i, got := range elements[uint32](a) {
				if got != c.want {
					t.Errorf("%v of %v and %v, element %d of %d: got %#x, want %#x", c.op, c.a, c.b, i, n, got, c.want)
				}
			}
		}
	}
}

// TestIntegers compares one element of each type with what Go computes.
func TestIntegers(t *testing.T) {
	a, b := []byte{0x9c}, []byte{0x2c} // -100 or 156, and 44
	for _, c := range []struct {
		op   Op
		t    Type
		want byte
	}{
		{Sum, Int8, 0xc8},
		{Prod, Int8, 0xd0},
		{Min, Int8, 0x9c},
		{Max, Int8, 0x2c},
		{Min, Uint8, 0x2c},
		{Max, Uint8, 0x9c},
		{And, Uint8, 0x0c},
		{Or, Uint8, 0xbc},
		{Xor, Int8, 0xb0},
	} {
		dst := []byte{0}
		Combine(c.op, c.t, dst, a, b)
		if dst[0] != c.want {
			t.Errorf("%v of %v: got %#x, want %#x", c.op, c.t, dst[0], c.want)
		}
	}
}

func TestDivide(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for typ := range numTypes {
		b := operands(r, typ, 100)
		want := bytes.Clone(b)
		if Divide(typ, b, 1); typ >= Int8 && !bytes.Equal(b, want) {
			t.Errorf("%v: division by 1 changes integers", typ)
		}
	}
	f := bits32(3, -1, float32(math.NaN()))
	Divide(Float32, f, 3)
	if want := bits32(1, -float32(1)/3, math.Float32frombits(0x7fc00000)); !bytes.Equal(f, want) {
		t.Errorf("float32: got %x, want %x", f, want)
	}
	i := []byte{200, 7}
	Divide(Int8, i, 300)
	if i[0] != 0 || i[1] != 0 {
		t.Errorf("int8 by 300: got %v", i)
	}
	i = []byte{200, 7} // -56, 7
	Divide(Int8, i, 3)
	if i[0] != 0xee || i[1] != 2 { // -18
		t.Errorf("int8 by 3: got %v", i)
	}
	i = []byte{200, 7}
	Divide(Uint8, i, 3)
	if i[0] != 66 || i[1] != 2 {
		t.Errorf("uint8 by 3: got %v", i)
	}
	h := []byte{0x00, 0x40} // bfloat16 2
	Divide(BFloat16, h, 4)
	if h[0] != 0 || h[1] != 0x3f { // 0.5
		t.Errorf("bfloat16: got %x", h)
	}
}

func TestHas(t *testing.T) {
	for typ := range numTypes {
		for op := range numOps {
			if want := typ >= Int8 || op == Sum || op == Prod || op == Min || op == Max; Has(op, typ) != want {
				t.Errorf("Has(%v, %v) = %v", op, typ, !want)
			}
		}
	}
	if Has(numOps, Int8) || Has(Sum, numTypes) {
		t.Error("Has accepts what is not")
	}
}

// TestKernelsAreGenerated checks that the kernels were written by gen/main.go as it is.
func TestKernelsAreGenerated(t *testing.T) {
	source, err := os.ReadFile("gen/main.go")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(source)
	for _, name := range []string{"kernels_amd64.go", "kernels_amd64.s"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if head, _, _ := bytes.Cut(text, []byte("\n")); !bytes.Contains(head, []byte(hex.EncodeToString(sum[:]))) {
			t.Errorf("%s is older than gen/main.go: run go generate ./worker/internal/vec", name)
		}
	}
}

func FuzzCombine(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz"), byte(0), byte(1), byte(3))
	f.Fuzz(func(t *testing.T, data []byte, op, typ, shift byte) {
		o, ty := Op(op)%numOps, Type(typ)%numTypes
		if !Has(o, ty) {
			return
		}
		n := len(data) / 2 / ty.Size() * ty.Size()
		a, b := data[:n], data[len(data)-n:]
		got := make([]byte, n+int(shift))[shift:]
		want := make([]byte, n)
		Combine(o, ty, got, a, b)
		plain(o, ty, want, a, b)
		if !bytes.Equal(got, want) {
			t.Errorf("%v of %v: got %x, want %x", o, ty, got, want)
		}
	})
}

func BenchmarkCombine(b *testing.B) {
	for _, size := range []int{16 << 10, 256 << 10, 16 << 20} {
		dst, x := make([]byte, size), make([]byte, size)
		for _, c := range []struct {
			op Op
			t  Type
		}{{Sum, Float32}, {Sum, Float64}, {Max, Float32}, {Sum, BFloat16}, {Sum, Float16}, {Sum, Int32}, {Min, Int32}} {
			name := c.op.String() + "/" + c.t.String() + "/" + map[int]string{16 << 10: "16KiB", 256 << 10: "256KiB", 16 << 20: "16MiB"}[size]
			b.Run(name, func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					Combine(c.op, c.t, dst, dst, x)
				}
			})
			b.Run(name+"/plain", func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					plain(c.op, c.t, dst, dst, x)
				}
			})
		}
	}
}
