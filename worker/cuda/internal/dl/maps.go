package dl

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// fileOf returns the file that is mapped at an address of this process.
func fileOf(addr uintptr) string {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return ""
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		span, rest, _ := strings.Cut(s.Text(), " ")
		low, high, _ := strings.Cut(span, "-")
		from, err := strconv.ParseUint(low, 16, 64)
		to, err2 := strconv.ParseUint(high, 16, 64)
		if err != nil || err2 != nil || uint64(addr) < from || uint64(addr) >= to {
			continue
		}
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			return rest[i:]
		}
		return ""
	}
	return ""
}
