package diagnose

import (
	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/python"
)

// readRayTask reads the process of a task of Ray whose traceback follows.
func (s *Scanner) readRayTask(l *line, f *match.Fields) {
	s.rayTask = s.newEvent(s.matcher.byKey[catalogue.RowNoReason], l)
	s.rayTask.pid, s.rayTask.host = f.Number("pid"), f.Text("host")
}

// fillTask gives an exception the process of the task of Ray that raised it, if a line
// before it names one. An exception about an actor that died is not of that actor.
func (s *Scanner) fillTask(e *event) {
	if task := s.rayTask; task != nil && e.row.Key != catalogue.RowActorDied && task.stream == e.stream && e.number-task.number < 100 {
		e.pid, e.host = task.pid, task.host
		s.rayTask = nil
	}
}

// rayTaskHead matches what Ray puts between the traceback of a caller and that of the
// task that it called.
var rayTaskHead = match.Lazy(`^ray\.exceptions\.RayTaskError\([\w.]+\): ray::`)

// rayLoss matches Ray's exceptions about another process that ended.
var rayLoss = match.Lazy(`^ray\.exceptions\.(?:Ray)?(?:Actor|Worker|Node|Owner|Object|Reference)\w*Error$`)

// ownerDied matches what Ray says of a process that it ended because its owner had ended.
var ownerDied = match.Lazy(`\bits owner has died\b.*\bOwner Ip address: ([\d.]+)`)

// ownerAddress returns the address of the node of the owner that ended before the process of
// which e tells, "" if e tells of none.
func ownerAddress(e *python.Exception) string {
	for _, line := range e.Message {
		if m := ownerDied().FindStringSubmatch(line); m != nil {
			return m[1]
		}
	}
	return ""
}
