package flight

import (
	"strconv"
	"strings"
)

// RankSet is the text of a list of ranks in which runs are ranges: "0-7,16". The empty
// text means that the ranks are unknown.
type RankSet string

// NewRankSet returns the text of a list.
func NewRankSet(list []int) RankSet {
	var b []byte
	for i := 0; i < len(list); {
		k := i
		for k+1 < len(list) && list[k+1] == list[k]+1 {
			k++
		}
		if i > 0 {
			b = append(b, ',')
		}
		if b = strconv.AppendInt(b, int64(list[i]), 10); k > i {
			b = strconv.AppendInt(append(b, '-'), int64(list[k]), 10)
		}
		i = k + 1
	}
	return RankSet(b)
}

// list returns the ranks, or nil if they are unknown or more than limit.
func (s RankSet) list(limit int) []int {
	var all []int
	for part := range strings.SplitSeq(string(s), ",") {
		first, last, isRange := strings.Cut(part, "-")
		lo, err := strconv.Atoi(first)
		hi := lo
		if isRange && err == nil {
			hi, err = strconv.Atoi(last)
		}
		if err != nil || lo < 0 || hi < lo || hi > maxRank || hi-lo >= limit-len(all) {
			return nil
		}
		for r := lo; r <= hi; r++ {
			all = append(all, r)
		}
	}
	return all
}
