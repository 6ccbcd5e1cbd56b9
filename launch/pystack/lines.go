package pystack

// lineOf returns the line of the instruction at byte at of a code object, 0 if it has
// none.
func (f lineFormat) lineOf(table []byte, first, at int) int {
	switch f {
	case lnotab:
		return lineInLnotab(table, first, at)
	case linetable:
		return lineInLinetable(table, first, at)
	default:
		return lineInLocations(table, first, at)
	}
}

// lineInLnotab reads pairs of an unsigned step in bytes and a signed step in lines.
func lineInLnotab(table []byte, line, at int) int {
	reached := 0
	for i := 0; i+1 < len(table); i += 2 {
		if reached += int(table[i]); reached > at {
			break
		}
		line += int(int8(table[i+1]))
	}
	return line
}

// noLine is the step in lines of instructions that have no line.
const noLine = -128

// lineInLinetable reads pairs of the length of a range in bytes and the step in lines to
// that range.
func lineInLinetable(table []byte, line, at int) int {
	end := 0
	for i := 0; i+1 < len(table); i += 2 {
		end += int(table[i])
		step := int(int8(table[i+1]))
		if step != noLine {
			line += step
		}
		if at < end {
			if step == noLine {
				return 0
			}
			return line
		}
	}
	return line
}

// Kinds of an entry in a table of locations.
const (
	kindOneLine  = 10 // 10 to 12: the step in lines plus 10
	kindNoColumn = 13
	kindLong     = 14
	kindNone     = 15
)

// lineInLocations reads entries whose first byte alone has its highest bit set: it has
// the kind and the length in units of two bytes.
func lineInLocations(table []byte, line, at int) int {
	end := 0
	for i := 0; i < len(table); {
		kind := int(table[i]>>3) & 15
		end += 2 * (int(table[i]&7) + 1)
		i++
		switch kind {
		case kindLong, kindNoColumn:
			line += signedVarint(table[i:])
		case kindOneLine, kindOneLine + 1, kindOneLine + 2:
			line += kind - kindOneLine
		}
		if at < end {
			if kind == kindNone {
				return 0
			}
			return line
		}
		for i < len(table) && table[i]&0x80 == 0 {
			i++
		}
	}
	return line
}

// signedVarint reads a number in groups of six bits, the lowest first; the lowest bit is
// the sign.
func signedVarint(b []byte) int {
	var n uint32
	for i := 0; i < len(b) && i < 6; i++ {
		n |= uint32(b[i]&0x3f) << (6 * i)
		if b[i]&0x40 == 0 {
			break
		}
	}
	if n&1 != 0 {
		return -int(n >> 1)
	}
	return int(n >> 1)
}
