package vec

// kernels has the kernel of each operation and type, nil where plain Go runs.
var kernels = choose(hasAVX2())

// choose returns the kernels of a processor.
func choose(avx2 bool) (k [numOps][numTypes]kernel) {
	if !avx2 {
		return k
	}
	k[Sum] = [numTypes]kernel{
		Float64: sumFloat64, Float32: sumFloat32, Float16: sumFloat16, BFloat16: sumBFloat16,
		Int8: sumInt8, Uint8: sumInt8, Int16: sumInt16, Uint16: sumInt16,
		Int32: sumInt32, Uint32: sumInt32, Int64: sumInt64, Uint64: sumInt64,
	}
	k[Prod] = [numTypes]kernel{Float64: prodFloat64, Float32: prodFloat32}
	k[Min] = [numTypes]kernel{Float64: minFloat64, Float32: minFloat32}
	k[Max] = [numTypes]kernel{Float64: maxFloat64, Float32: maxFloat32}
	for t := Int8; t < numTypes; t++ {
		k[And][t], k[Or][t], k[Xor][t] = andBits, orBits, xorBits
	}
	return k
}

// hasAVX2 reports whether the processor has AVX2 and F16C and the system saves their
// registers.
func hasAVX2() bool {
	const osxsave, avx, f16c = 1 << 27, 1 << 28, 1 << 29 // leaf 1, ecx
	const avx2 = 1 << 5                                  // leaf 7, ebx
	const xmmAndYmm = 6                                  // register XCR0
	highest, _, _ := cpuid(0, 0)
	if highest < 7 {
		return false
	}
	_, _, ecx := cpuid(1, 0)
	if ecx&(osxsave|avx|f16c) != osxsave|avx|f16c || xgetbv()&xmmAndYmm != xmmAndYmm {
		return false
	}
	_, ebx, _ := cpuid(7, 0)
	return ebx&avx2 != 0
}
