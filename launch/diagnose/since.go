package diagnose

import (
	"fmt"
	"time"

	"github.com/gorun/gorun/launch/diagnose/prefix"
)

// ParseSince reads a time: a duration before now (2h), a time of the last day (16:30)
// or a date with or without a time, in the zone of now or, as RFC 3339 has it, in its
// own.
func ParseSince(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			at := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location())
			if at.After(now) {
				at = at.AddDate(0, 0, -1)
			}
			return at, nil
		}
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", time.DateTime, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.In(now.Location()), nil
	}
	return time.Time{}, fmt.Errorf("%q is no time: write a duration (2h), a time (16:30) or a date (2026-11-21 16:30)", text)
}

// Since makes the scanner skip lines whose time is before t. Lines without a time belong
// to the last line that has one. The zone of t is that of the logs.
func (s *Scanner) Since(t time.Time) {
	s.since = prefix.MakeStamp(int(t.Month()), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond())
}

// isTooOld reports whether a line is before the time of Since.
func (s *Scanner) isTooOld(l *line) bool {
	return s.since.IsKnown() && l.When.IsKnown() && l.When.Cmp(s.since) < 0
}
