package diagnose

import (
	"bytes"
	"cmp"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/wording"
)

// detailLines bounds the lines between an event and its details.
const detailLines = 40

const (
	// detailLine matches the host and the program in a help text of mpirun, and the node
	// of a process in an exception of Ray.
	detailLine = `^\s*(?i:target node:|node:  |local host: | host: |hostname:) *(?P<host>[\w.-]+)\s*$|^(?:\tip: |\s*    ip: )(?P<host2>[\w.:-]+)\s*$|^\s*(?:Executable|Application name):\s+(?P<program>\S+)`
	// describedPod matches the pod of kubectl describe, and the host of qacct.
	describedPod = `^hostname {4,}(?P<host3>[\w.-]+)\s*$|^Name:  +(?P<host>[\w.-]+)\s*$|^\s+\w.*\sScheduled\s+.*Successfully assigned (?:[\w-]+/)?(?P<host2>[\w.-]+) to `
	// nodeLine matches a line that names the node of a pod.
	nodeLine = `Successfully assigned (?:[\w.-]+/)?(?P<pod>[a-z0-9][\w.-]*) to (?P<node>[\w.-]*\w)|^Node:\s+(?P<node2>[a-z0-9][\w.-]*)(?:/|\s*$)|\bkubelet, (?P<node3>[\w.-]*\w)|^(?P<pod4>[a-z0-9][a-z0-9.-]*)\s+\d+/\d+\s+[A-Z]\w+\s.*\s(?:<none>|[\d.]+)\s+(?P<node4>[a-z][\w.-]*)\s+<none>`
	// podStarted matches a line of kubectl that says that all containers of a pod run.
	podStarted = `\bStarted (?:container|with docker id)\b|^[a-z0-9][a-z0-9.-]*\s+(?P<ready>\d+)/(?P<all>\d+)\s+ Running `
)

// podName matches the pod in an event of Kubernetes, and in a table of pods.
var podName = match.Lazy(`(?:^|\s|Pod |pod )(?:pod|node)/(?P<host>[\w.-]+)|^(?P<host2>[a-z0-9][a-z0-9.-]*)\s+\d+/\d+\s+\w|✖\s+\S+\s+\S+\s+(?P<host3>[a-z0-9][a-z0-9.-]*)\s|\bpod[ =]"(?:[\w-]+/)?(?P<host4>[a-z0-9][a-z0-9.-]*)`)

// readDetail reads a line that says more about the event before it: the host and the
// program of a help text, the node of an actor.
func (s *Scanner) readDetail(l *line, f *match.Fields) {
	e := s.lastEvent
	if e == nil || e.stream != l.stream || l.number-e.number > detailLines {
		return
	}
	if e.host == "" && e.rank < 0 {
		e.host = f.Text("host")
	}
	if program := f.Text("program"); program != "" && len(e.text) < match.MaxText/2 {
		e.text += " " + program
	}
}

// inRecordOf reports whether l belongs to the message of several lines that a logger
// wrote from the line of e on. Only the first line of such a message has a time.
func (s *Scanner) inRecordOf(e *event, l *line) bool {
	return e != nil && e.stream == l.stream && !l.Timed && s.recordStart > 0 && e.number >= s.recordStart && l.number-e.number <= 2*besideSpan
}

// nameRecord gives the last event the host that a later line of its message names.
func (s *Scanner) nameRecord(l *line) {
	if e := s.lastEvent; s.inRecordOf(e, l) && e.number < l.number && e.host == "" && !e.hasOrigin() {
		if host := s.matcher.wordings.Named(wording.Host, l.raw); host != nil {
			e.host = match.PlainText(host)
		}
	}
}

// readDescribedPod reads the name of the pod that kubectl describes.
func (s *Scanner) readDescribedPod(l *line, f *match.Fields) {
	s.described = s.newEvent(s.matcher.byKey[catalogue.RowNoReason], l)
	s.described.host = f.Text("host")
}

// readNode reads the node on which a pod of Kubernetes runs.
func (s *Scanner) readNode(l *line, f *match.Fields) {
	pod := cmp.Or(f.Text("pod"), s.podOf(l), l.Host)
	if pod == "" && s.described != nil && s.described.stream == l.stream {
		pod = s.described.host
	}
	if f.Text("pod") != "" { // the cluster had room for it in the end
		if g := s.groups[catalogue.RowScheduling]; g != nil {
			for _, e := range g.events {
				e.handled = e.handled || e.log == l.stream.log && (e.host == "" || e.host == pod)
			}
		}
	}
	if node := f.Text("node"); pod != "" && node != pod && node != "none" && len(s.job.nodes) < maxEntries {
		s.job.nodes[pod] = node
	}
}

// readMissingTask adds a task to the event before it, which announces a list of those that
// did not come: of JAX's barrier, or of the stalled ranks of Horovod.
func (s *Scanner) readMissingTask(l *line, f *match.Fields) {
	e, stream, rank := s.lastEvent, l.stream, f.Number("rank")
	if f.Has("label") && e != nil { // "0: [HorovodAllreduce]" looks like a line of srun's task 0
		stream, rank = streamKey{l.stream.log, e.stream.label}, l.Task
	}
	if e == nil || rank < 0 || e.row.Kind != catalogue.Absence || e.stream != stream || l.number-e.number > detailLines || len(e.named) >= maxRanks {
		return
	}
	e.named = append(e.named, rank)
}

// podOf returns the pod that a line of kubectl is about, "" if there is none.
func (s *Scanner) podOf(l *line) string {
	if bytes.Contains(l.raw, []byte("pod")) || bytes.IndexByte(l.raw, '/') > 0 || bytes.Contains(l.raw, []byte("✖")) {
		if f := match.FindFields(podName(), l.raw); f != nil {
			return f.Text("host")
		}
	}
	if d := s.described; d != nil && d.stream == l.stream && l.number-d.number < 200 && (l.raw[0] == ' ' || l.raw[0] == '\t' || bytes.HasPrefix(l.raw, []byte("Reason:")) || bytes.HasPrefix(l.raw, []byte("failed "))) {
		return d.host
	}
	return ""
}

// startRows are the rows about what Kubernetes tries again until a pod starts: volumes,
// images, nodes, probes.
func startRows() []string {
	return []string{catalogue.RowMount, catalogue.RowScheduling, catalogue.RowImage, catalogue.RowProbe, catalogue.RowContainer, catalogue.RowRegistry}
}

// readPodStarted marks what kept a pod from starting as handled.
func (s *Scanner) readPodStarted(l *line, f *match.Fields) {
	if f.Text("ready") != f.Text("all") {
		return
	}
	pod := s.podOf(l)
	for _, key := range startRows() {
		if g := s.groups[key]; g != nil && pod != "" {
			for _, e := range g.events {
				e.handled = e.handled || e.host == pod && e.log == l.stream.log
			}
		}
	}
}

// readStopping notes the first line that says that a worker was told to stop. What the
// workers print after it may be an effect.
func (s *Scanner) readStopping(l *line, _ *match.Fields) {
	if s.job.stopping == nil {
		s.job.stopping = s.newEvent(s.matcher.byKey[catalogue.RowStopped], l)
	}
}
