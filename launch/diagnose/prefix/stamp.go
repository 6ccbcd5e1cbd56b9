package prefix

import (
	"cmp"
	"fmt"
)

// Stamp is a wall clock's time without its year, which many logs leave out.
type Stamp struct {
	Sec  int64 // since the year began, with 31 days in every month; 0: unknown
	nano int   // -1: the log has seconds only
}

// IsKnown reports whether t is a time.
func (t Stamp) IsKnown() bool { return t.Sec != 0 }

// MakeStamp returns the zero stamp if the parts are no time.
func MakeStamp(month, day, hour, minute, sec, nano int) Stamp {
	if month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || sec > 60 {
		return Stamp{}
	}
	return Stamp{Sec: int64(((month*31+day)*24+hour)*3600 + minute*60 + sec), nano: nano}
}

// year is the most seconds that a stamp can have.
const year = 13 * 31 * 24 * 3600

// Cmp orders two known times. At the turn of a year January comes after
// December.
func (t Stamp) Cmp(u Stamp) int {
	d := t.Sec - u.Sec
	switch {
	case d > year/2:
		d -= year
	case d < -year/2:
		d += year
	case d == 0 && t.nano >= 0 && u.nano >= 0:
		d = int64(t.nano - u.nano)
	}
	return cmp.Compare(d, 0)
}

// timeReader reads the parts of a time from the front of p. failed stays set after
// the first part that is missing.
type timeReader struct {
	p      []byte
	failed bool
}

// number reads a number of low to high digits.
func (r *timeReader) number(low, high int) int {
	n, i := 0, 0
	for i < len(r.p) && i < high && '0' <= r.p[i] && r.p[i] <= '9' {
		n = n*10 + int(r.p[i]-'0')
		i++
	}
	r.failed = r.failed || i < low
	r.p = r.p[i:]
	return n
}

// oneOf reads one of the bytes in set.
func (r *timeReader) oneOf(set string) {
	if len(r.p) > 0 {
		for i := range len(set) {
			if r.p[0] == set[i] {
				r.p = r.p[1:]
				return
			}
		}
	}
	r.failed = true
}

// clock reads 10:12, 10:12:01 or 10:12:01.5.
func (r *timeReader) clock() (h, m, s, nano int) {
	h = r.number(1, 2)
	r.oneOf(":")
	m = r.number(2, 2)
	if len(r.p) == 0 || r.p[0] != ':' {
		return h, m, 0, -1
	}
	r.oneOf(":")
	s = r.number(2, 2)
	if r.failed || len(r.p) < 2 || r.p[0] != '.' && r.p[0] != ',' || r.p[1] < '0' || r.p[1] > '9' {
		return h, m, s, -1
	}
	r.p = r.p[1:]
	before := len(r.p)
	nano = r.number(1, 9)
	for range 9 - (before - len(r.p)) {
		nano *= 10
	}
	return h, m, s, nano
}

// ReadTime reads the time that p begins with, in one of the formats of logs,
// and returns what follows it.
func ReadTime(p []byte) (Stamp, []byte) {
	if len(p) == 0 || p[0] < '0' || p[0] > 'Z' { // no time begins so
		return Stamp{}, p
	}
	for _, read := range []func(*timeReader) Stamp{isoTime, glogTime, syslogTime, usTime} {
		r := timeReader{p: p}
		if t := read(&r); !r.failed && t.IsKnown() {
			return t, r.p
		}
	}
	return Stamp{}, p
}

// isoTime reads 2026-11-21T16:39:58.5Z, 2026-11-21 16:39:58,123 and
// 2026-11-21_16:39:58.
func isoTime(r *timeReader) Stamp {
	r.number(4, 4)
	r.oneOf("-/")
	month := r.number(2, 2)
	r.oneOf("-/")
	day := r.number(2, 2)
	r.oneOf("T _:")
	h, m, s, nano := r.clock()
	// The zone is ignored, because one collector writes one zone.
	if len(r.p) > 0 && r.p[0] == 'Z' {
		r.p = r.p[1:]
	} else if len(r.p) > 2 && (r.p[0] == '+' || r.p[0] == '-') && '0' <= r.p[1] && r.p[1] <= '9' {
		r.p = r.p[1:]
		r.number(2, 4)
		if len(r.p) > 0 && r.p[0] == ':' {
			r.p = r.p[1:]
			r.number(2, 2)
		}
	}
	return MakeStamp(month, day, h, m, s, nano)
}

// glogTime reads E1121 16:39:58.123456789. Some releases write a month of one
// digit.
func glogTime(r *timeReader) Stamp {
	r.oneOf("EWIF")
	n := r.number(3, 4)
	r.oneOf(" ")
	h, m, s, nano := r.clock()
	return MakeStamp(n/100, n%100, h, m, s, nano)
}

// syslogTime reads Nov 21 16:39:58 and Sat Nov 21 16:39:58 2026.
func syslogTime(r *timeReader) Stamp {
	const days, months = "MonTueWedThuFriSatSun", "JanFebMarAprMayJunJulAugSepOctNovDec"
	if index(r.p, days) >= 0 && len(r.p) > 4 {
		r.p = r.p[4:]
	}
	month := index(r.p, months) + 1
	if month < 1 || len(r.p) < 5 {
		r.failed = true
		return Stamp{}
	}
	r.p = r.p[3:]
	r.oneOf(" ")
	if len(r.p) > 0 && r.p[0] == ' ' {
		r.p = r.p[1:]
	}
	day := r.number(1, 2)
	r.oneOf(" ")
	h, m, s, nano := r.clock()
	if len(r.p) > 4 && r.p[0] == ' ' && r.p[1] == '2' && r.p[2] == '0' {
		r.p = r.p[1:]
		r.number(4, 4)
	}
	return MakeStamp(month, day, h, m, s, nano)
}

// usTime reads 04/18/23 21:09:53, and 23/04/18 21:09:53 of Spark.
func usTime(r *timeReader) Stamp {
	month := r.number(2, 2)
	r.oneOf("/")
	day := r.number(2, 2)
	r.oneOf("/")
	last := r.number(2, 4)
	if month > 12 { // a year
		month, day = day, last
	}
	r.oneOf(" ")
	h, m, s, nano := r.clock()
	return MakeStamp(month, day, h, m, s, nano)
}

// index returns which three-letter word of set p begins with, counted from 0,
// or -1 for none.
func index(p []byte, set string) int {
	if len(p) < 3 {
		return -1
	}
	for i := 0; i < len(set); i += 3 {
		if string(p[:3]) == set[i:i+3] {
			return i / 3
		}
	}
	return -1
}

// Text returns the time as month, day and clock, "" if it is unknown.
func (t Stamp) Text() string {
	if !t.IsKnown() {
		return ""
	}
	day := t.Sec / (24 * 3600)
	month := (day - 1) / 31
	sec := t.Sec % (24 * 3600)
	return fmt.Sprintf("%02d-%02d %02d:%02d:%02d", month, day-month*31, sec/3600, sec/60%60, sec%60)
}
