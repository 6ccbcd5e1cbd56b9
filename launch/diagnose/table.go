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
		} else if end := min(len(row), at+len(column)); end > 0 { // a word ends below the name of its column, or begins there
			rest := bytes.IndexByte(append(row[end:len(row):len(row)], ' '), ' ')
			words := bytes.Fields(row[:end+rest])
			if len(words) > 0 {
				field = words[len(words)-1]
			}
		}
		if oneHost().Match(field) {
			return match.PlainText(field)
		}
		return ""
	}
	return ""
}

// lsfHostLine matches the host in the report that LSF prints below the output of a job.
const lsfHostLine = `^Job was executed on host\(s\) <(?:\d+\*)?(?P<host>[\w.-]+)>, in queue`

var (
	lsfHost = match.Lazy(lsfHostLine)
	// lsfNextHost matches the line below it that names another host.
	lsfNextHost = match.Lazy(`^\s*<(?:\d+\*)?[\w.-]+>\s*$`)
)

// maxReport is how many lines at the end of a log the report of LSF may have.
const maxReport = 80

// readReport reads the host on which LSF says that the job of the present log ran.
func (s *Scanner) readReport() {
	log := len(s.logs) - 1
	if at := s.job.lsfReport; at.number == 0 || at.log != log {
		return
	}
	below := []byte(nil)
	for l := range s.linesAtEnd(maxReport) {
		if f := match.FindFields(lsfHost(), l.raw); f != nil {
			if !lsfNextHost().Match(below) {
				s.logs[log].ranOn.add(f.Text("host"))
			}
			return
		}
		below = bytes.Clone(l.raw)
	}
}
