// gen writes the AVX2 kernels of package vec. Run it with go generate in that package.
package main

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"log"
	"os"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
	"github.com/mmcloughlin/avo/reg"
)

// source is this file. The generated files name its sum, which a test of package vec
// compares with the file.
//
//go:embed main.go
var source []byte

const (
	lanes    = 32 // bytes of a register: the step of a kernel
	unrolled = 4  // steps of the first loop
)

func main() {
	log.SetFlags(0)
	c := &kernels{build.NewContext()}
	c.ConstraintExpr("amd64")
	c.floats32()
	c.floats64()
	c.sumFloat16()
	c.sumBFloat16()
	c.lanewise("sumInt8", "adds int8 or uint8", c.VPADDB)
	c.lanewise("sumInt16", "adds int16 or uint16", c.VPADDW)
	c.lanewise("sumInt32", "adds int32 or uint32", c.VPADDD)
	c.lanewise("sumInt64", "adds int64 or uint64", c.VPADDQ)
	c.lanewise("andBits", "computes the bitwise and", ofThree(c.VPAND))
	c.lanewise("orBits", "computes the bitwise or", ofThree(c.VPOR))
	c.lanewise("xorBits", "computes the bitwise exclusive or", ofThree(c.VPXOR))
	c.cpuid()
	c.xgetbv()

	file, err := c.Result()
	if err == nil {
		err = pass.Compile.Execute(file)
	}
	if err != nil {
		log.Fatalf("cannot compile the kernels: %v", err)
	}
	cfg := printer.Config{Pkg: "vec", Argv: []string{"go", "generate", fmt.Sprintf("(sha256 of gen/main.go: %x)", sha256.Sum256(source))}}
	for name, p := range map[string]printer.Printer{
		"../kernels_amd64.s":  printer.NewGoAsm(cfg),
		"../kernels_amd64.go": printer.NewStubs(cfg),
	} {
		text, err := p.Print(file)
		if err == nil {
			err = os.WriteFile(name, text, 0o644)
		}
		if err != nil {
			log.Fatalf("cannot write %s: %v", name, err)
		}
	}
}

// kernels is the assembly file that is written.
type kernels struct{ *build.Context }

// instruction is a vector instruction; its last operand is the result.
type instruction = func(...operand.Op)

// ofThree makes an instruction of one that has no form with more operands.
func ofThree(run func(x, y, to operand.Op)) instruction {
	return func(ops ...operand.Op) { run(ops[0], ops[1], ops[2]) }
}

// loop writes the kernel name. step writes one step: lanes bytes at dst become the result
// of lanes bytes at a and b. It must read both before it writes dst, which may be a or b.
func (c *kernels) loop(name, does string, prepare func(), step func(dst, a, b operand.Mem)) {
	c.Function(name)
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(dst, a, b *byte, n int)")
	c.Pragma("noescape")
	c.Doc(name + " " + does + ".")
	dst := operand.Mem{Base: c.Load(c.Param("dst"), c.GP64())}
	a := operand.Mem{Base: c.Load(c.Param("a"), c.GP64())}
	b := operand.Mem{Base: c.Load(c.Param("b"), c.GP64())}
	n := c.Load(c.Param("n"), c.GP64())
	prepare()
	for _, l := range []struct {
		label, next string
		steps       int
	}{{"four", "one", unrolled}, {"one", "done", 1}} {
		bytes := operand.U32(l.steps * lanes)
		c.Label(l.label)
		c.CMPQ(n, bytes)
		c.JL(operand.LabelRef(l.next))
		for i := range l.steps {
			step(dst.Offset(i*lanes), a.Offset(i*lanes), b.Offset(i*lanes))
		}
		for _, p := range []operand.Op{dst.Base, a.Base, b.Base} {
			c.ADDQ(bytes, p)
		}
		c.SUBQ(bytes, n)
		c.JMP(operand.LabelRef(l.label))
	}
	c.Label("done")
	c.VZEROUPPER()
	c.RET()
}

// lanewise writes a kernel that is one instruction.
func (c *kernels) lanewise(name, does string, run instruction) {
	c.loop(name, does, func() {}, func(dst, a, b operand.Mem) {
		x := c.YMM()
		c.VMOVDQU(a, x)
		run(b, x, x)
		c.VMOVDQU(x, dst)
	})
}

// floats has the instructions for one type of float.
type floats struct {
	name               string
	load               instruction
	add, mul, min, max instruction
	and, or, compare   instruction
	blend              func(mask, ifSet, ifClear, to operand.Op)
	nan                operand.Mem
	broadcast          instruction
}

func (c *kernels) floats32() {
	c.floats(floats{
		name: "Float32", load: c.VMOVUPS, add: c.VADDPS, mul: c.VMULPS, min: c.VMINPS, max: c.VMAXPS,
		and: c.VANDPS, or: c.VORPS, compare: c.VCMPPS, blend: c.VBLENDVPS,
		nan: c.ConstData("nanFloat32", operand.U32(0x7fc00000)), broadcast: c.VBROADCASTSS,
	})
}

func (c *kernels) floats64() {
	c.floats(floats{
		name: "Float64", load: c.VMOVUPD, add: c.VADDPD, mul: c.VMULPD, min: c.VMINPD, max: c.VMAXPD,
		and: c.VANDPD, or: c.VORPD, compare: c.VCMPPD, blend: c.VBLENDVPD,
		nan: c.ConstData("nanFloat64", operand.U64(0x7ff8<<48)), broadcast: c.VBROADCASTSD,
	})
}

// unordered is the predicate of VCMPPS that holds if an operand is a NaN.
const unordered = operand.U8(3)

// floats writes sum, prod, min and max. Each replaces every NaN by the one of package vec.
func (c *kernels) floats(f floats) {
	var nan reg.VecVirtual
	prepare := func() {
		nan = c.YMM()
		f.broadcast(f.nan, nan)
	}
	for _, k := range []struct {
		name, does string
		run        instruction
	}{{"sum", "adds", f.add}, {"prod", "multiplies", f.mul}} {
		c.loop(k.name+f.name, k.does+" floats", prepare, func(dst, a, b operand.Mem) {
			x, isNaN := c.YMM(), c.YMM()
			f.load(a, x)
			k.run(b, x, x)
			f.compare(unordered, x, x, isNaN)
			f.blend(isNaN, nan, x, x)
			f.load(x, dst)
		})
	}
	// VMINPS returns its second operand if both are zero, or if one is a NaN. Computed
	// both ways round, the results differ only then. Of two zeros, or keeps the sign that
	// min needs, and and that of max.
	for _, k := range []struct {
		name, does  string
		run, settle instruction
	}{{"min", "takes the lesser of", f.min, f.or}, {"max", "takes the greater of", f.max, f.and}} {
		c.loop(k.name+f.name, k.does+" floats", prepare, func(dst, a, b operand.Mem) {
			x, y, there, back := c.YMM(), c.YMM(), c.YMM(), c.YMM()
			f.load(a, x)
			f.load(b, y)
			k.run(x, y, there)
			k.run(y, x, back)
			f.compare(unordered, x, y, x)
			k.settle(there, back, there)
			f.blend(x, nan, there, there)
			f.load(there, dst)
		})
	}
}

// sumFloat16 writes the kernel that adds as float32 and rounds to the nearest float16.
func (c *kernels) sumFloat16() {
	var nan reg.VecVirtual
	data := c.ConstData("nanFloat16", operand.U32(0x7fc00000))
	prepare := func() {
		nan = c.YMM()
		c.VBROADCASTSS(data, nan)
	}
	c.loop("sumFloat16", "adds float16", prepare, func(dst, a, b operand.Mem) {
		for half := range 2 {
			x, y := c.YMM(), c.YMM()
			c.VCVTPH2PS(a.Offset(half*lanes/2), x)
			c.VCVTPH2PS(b.Offset(half*lanes/2), y)
			c.VADDPS(y, x, x)
			c.VCMPPS(unordered, x, x, y)
			c.VBLENDVPS(y, nan, x, x)
			const nearest = operand.U8(0)
			c.VCVTPS2PH(nearest, x, dst.Offset(half*lanes/2))
		}
	})
}

// sumBFloat16 writes the kernel that adds as float32 and rounds to the nearest bfloat16:
// it adds half a step, less one for an even number, and drops the lower half.
func (c *kernels) sumBFloat16() {
	var nan, one, almostHalf reg.VecVirtual
	nanData := c.ConstData("nanBFloat16", operand.U32(0x7fc0))
	oneData := c.ConstData("one", operand.U32(1))
	almostHalfData := c.ConstData("almostHalf", operand.U32(0x7fff))
	prepare := func() {
		nan, one, almostHalf = c.YMM(), c.YMM(), c.YMM()
		c.VPBROADCASTD(nanData, nan)
		c.VPBROADCASTD(oneData, one)
		c.VPBROADCASTD(almostHalfData, almostHalf)
	}
	c.loop("sumBFloat16", "adds bfloat16", prepare, func(dst, a, b operand.Mem) {
		var sums [2]reg.VecVirtual
		for half := range sums {
			x, y, odd := c.YMM(), c.YMM(), c.YMM()
			c.VPMOVZXWD(a.Offset(half*lanes/2), x)
			c.VPMOVZXWD(b.Offset(half*lanes/2), y)
			c.VPSLLD(operand.U8(16), x, x)
			c.VPSLLD(operand.U8(16), y, y)
			c.VADDPS(y, x, x)
			c.VCMPPS(unordered, x, x, y)
			c.VPSRLD(operand.U8(16), x, odd)
			c.VPAND(one, odd, odd)
			c.VPADDD(almostHalf, x, x)
			c.VPADDD(odd, x, x)
			c.VPSRLD(operand.U8(16), x, x)
			c.VBLENDVPS(y, nan, x, x)
			sums[half] = x
		}
		c.VPACKUSDW(sums[1], sums[0], sums[0]) // quarters: low 0, high 0, low 1, high 1
		c.VPERMQ(operand.U8(0b11_01_10_00), sums[0], sums[0])
		c.VMOVDQU(sums[0], dst)
	})
}

func (c *kernels) cpuid() {
	c.Function("cpuid")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(leaf, subleaf uint32) (eax, ebx, ecx uint32)")
	c.Doc("cpuid asks the processor what it has.")
	c.Load(c.Param("leaf"), reg.EAX)
	c.Load(c.Param("subleaf"), reg.ECX)
	c.CPUID()
	c.Store(reg.EAX, c.Return("eax"))
	c.Store(reg.EBX, c.Return("ebx"))
	c.Store(reg.ECX, c.Return("ecx"))
	c.RET()
}

func (c *kernels) xgetbv() {
	c.Function("xgetbv")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func() (eax uint32)")
	c.Doc("xgetbv returns which registers the system saves: the lower half of XCR0.")
	c.XORL(reg.ECX, reg.ECX)
	c.XGETBV()
	c.Store(reg.EAX, c.Return("eax"))
	c.RET()
}
