package diagnose

import (
	"slices"
	"strconv"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
)

// announcements holds the ranks that processes announce when they start.
type announcements struct {
	size  int // of the world that they name
	ranks map[int]*announcement
	last  *event
	hosts map[int]*soleName // on which ranks say that they run
}

func newAnnouncements() announcements {
	return announcements{ranks: map[int]*announcement{}, hosts: map[int]*soleName{}}
}

// announcement counts the lines that announce one rank. Where lines name their writers,
// it keeps the first one and whether there was another.
type announcement struct {
	count  int
	writer string
	isTwo  bool
}

// announceLine matches what frameworks print when a rank starts: its number and that of
// all ranks.
const announceLine = `GLOBAL_RANK: (?P<rank>\d{1,6}), MEMBER: \d+/(?P<size>\d{1,6})|Global Rank: (?P<rank2>\d{1,6}), World Size: (?P<size2>\d{1,6})|\brank (?P<rank3>\d{1,6}) of world size (?P<size3>\d{1,6})`

// placeLine matches what programs print when a rank starts: its number and its host.
const placeLine = `\bHostname (?P<host>[\w.-]+), pid \d+, rank (?P<rank>\d{1,6}) / size|\b(?i:starting|started) rank (?P<rank2>\d{1,6}) on (?:host |node )?(?P<host2>[a-zA-Z][\w-]*\d[\w.-]*)|\b[Rr]ank[ :=#]*(?P<rank3>\d{1,6})\b.{0,40}(?: running on (?:host |node )?| on host | on node )(?P<host3>[a-z][\w-]*\d[\w.-]*)|\[(?P<rank4>\d{1,6})/\d+\] init on (?P<host4>[a-zA-Z][\w-]*\d[\w.-]*)|\b[Rr]ank (?P<rank5>\d{1,6}) of \d+ on (?P<host5>[a-zA-Z][\w-]*\d[\w.-]*), local`

// deviceName matches names of devices, which look like those of hosts.
var deviceName = match.Lazy(`^(?:(?i:python|torch|cuda|tpu|xpu|npu|mps|cpu|port|device|[ahv]100|[hb]200|l40s?)[\d.]*|GPU\d*|gpu\d?)$`)

// readPlace reads a line in which a process says on which host its rank runs.
func (s *Scanner) readPlace(_ *line, f *match.Fields) {
	hosts, rank := s.job.writers.announced.hosts, f.Number("rank")
	if hosts[rank] == nil && len(hosts) < maxEntries {
		hosts[rank] = &soleName{}
	}
	if host := f.Text("host"); hosts[rank] != nil && !deviceName().MatchString(host) {
		hosts[rank].add(host)
	}
}

// readAnnouncement reads a line in which a process announces its rank.
func (s *Scanner) readAnnouncement(l *line, f *match.Fields) {
	rank := f.Number("rank")
	a := &s.job.writers.announced
	a.size = max(a.size, f.Number("size"))
	s.job.world = max(s.job.world, min(a.size, 1<<20))
	writer := l.Host
	if l.Task >= 0 {
		writer += "/" + strconv.Itoa(l.Task)
	}
	known := a.ranks[rank]
	if known == nil {
		if len(a.ranks) < maxEntries {
			a.ranks[rank] = &announcement{count: 1, writer: writer}
		}
		return
	}
	known.count++
	known.isTwo = known.isTwo || writer != known.writer
	a.last = s.newEvent(s.matcher.byKey[catalogue.RowTwiceRank], l)
}

// missing returns the ranks that no process announced, nil if none announced any.
func (a *announcements) missing() []int {
	var missing []int
	for rank := range min(a.size, maxEntries) {
		if a.ranks[rank] == nil && len(a.ranks) > 0 {
			missing = append(missing, rank)
		}
	}
	return missing
}

// twiceEvent returns an event if several processes announced the same ranks while other
// ranks of the world never came, nil if not. Without writers each rank must have come
// equally often, and all processes together must make up the world.
func (s *Scanner) twiceEvent() *event {
	a := &s.job.writers.announced
	if a.last == nil || len(a.ranks) >= a.size {
		return nil
	}
	var twice []int
	areTwo, count := false, 0
	for rank, known := range a.ranks {
		count += known.count
		areTwo = areTwo || known.isTwo
		if known.count > 1 {
			twice = append(twice, rank)
		}
	}
	if !areTwo && (len(twice) < len(a.ranks) || count != a.size) {
		return nil
	}
	slices.Sort(twice)
	e := *a.last
	e.derived, e.origin = true, unknownOrigin()
	e.text = rankList(twice) + " were announced by several processes; " + strconv.Itoa(a.size-len(a.ranks)) + " of " + strconv.Itoa(a.size) + " ranks by none: " + e.text
	if !areTwo {
		e.kind = catalogue.Clue
	}
	return &e
}
