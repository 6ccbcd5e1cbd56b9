package diagnose

import (
	"bytes"

	"github.com/gorun/gorun/launch/diagnose/match"
)

// maxTable is how many lines above a row the head of its table may be.
const maxTable = 40

// oneHost matches the name of one host.
var oneHost = match.Lazy(`^[a-zA-Z][\w.-]*\d[\w.-]*$`)

// hostInTable returns the only host in the column NodeList of a row of sacct's table, ""
// where the table has no such column or the row has several hosts.
func (s *Scanner) hostInTable(row []byte) string {
	column := []byte("NodeList")
	for _, head := range s.linesBefore(maxTable) {
		at := bytes.Index(head, column)
		if at < 0 || !bytes.Contains(head, []byte("JobID")) {
			continue
		}
		field := []byte(nil)
		if n := bytes.Count(head[:at], []byte{'|'}); n > 0 { // sacct -P
			field = bytes.Split(append(bytes.Clone(row), bytes.Repeat([]byte{'|'}, n)...), []byte{'|'})[n]
		} else if words := bytes.Fields(row[:min(len(row), at+len(column))]); len(words) > 0 { // the columns end below their names
			field = words[len(words)-1]
		}
		if oneHost().Match(field) {
			return match.PlainText(field)
		}
		return ""
	}
	return ""
}
