package diagnose

import (
	"bytes"
)

// detailLines bounds the lines between an event and its details.
const detailLines = 40

var (
	// detailHost matches the host in a help text of mpirun, and the node of a process in
	// an exception of Ray.
	detailHost = lazyRegexp(`^\s*(?i:target node|node|local host|host|hostname):\s+([\w.-]+)\s*$|^\s+ip: ([\w.:-]+)\s*$`)
	// blockProgram matches the program in such a text.
	blockProgram = lazyRegexp(`^\s*(?:Executable|Application name|Program):\s+(\S+)`)
	// describedPod matches the pod of kubectl describe.
	describedPod = lazyRegexp(`^Name:\s+([\w.-]+)\s*$|^\s*Normal\s+Scheduled\s.*Successfully assigned (?:[\w-]+/)?([\w.-]+) to `)
	// podName matches the pod in an event of Kubernetes, and in a table of pods.
	podName = lazyRegexp(`(?:^|\s|Pod |pod )(?:pod|node)/([\w.-]+)|^([a-z0-9][a-z0-9.-]*)\s+\d+/\d+\s+\w|✖\s+\S+\s+\S+\s+([a-z0-9][a-z0-9.-]*)\s|\bpod "(?:[\w-]+/)?([a-z0-9][a-z0-9.-]*)`)
)

// readDetail reads a line that says more about the event before it: the host and the
// program of a help text, the node of an actor.
func (s *Scanner) readDetail(l *line) {
	if m := describedPod().FindSubmatch(l.raw); m != nil {
		s.described = s.newEvent(s.matcher.byKey[rowNoReason], l)
		s.described.host = plainText(firstGroup(m))
		return
	}
	e := s.lastEvent
	if e == nil || e.stream != l.stream || l.number-e.number > detailLines {
		return
	}
	if host := firstGroup(detailHost().FindSubmatch(l.raw)); host != nil && e.host == "" && e.rank < 0 {
		e.host = plainText(host)
	}
	if program := firstGroup(blockProgram().FindSubmatch(l.raw)); program != nil && len(e.text) < maxText/2 {
		e.text += " " + plainText(program)
	}
}

// missingTask matches a task in JAX's list of those that did not come to a barrier.
var missingTask = lazyRegexp(`^/job:\w+/replica:\d+/task:(\d{1,6})$`)

// readMissingTask adds a task to the event before it, which announces such a list.
func (s *Scanner) readMissingTask(l *line) {
	e := s.lastEvent
	if e == nil || e.row.Kind != Absence || e.stream != l.stream || l.number-e.number > detailLines || len(e.named) >= maxRanks {
		return
	}
	if n := number(missingTask(), bytes.TrimSpace(l.raw)); n >= 0 {
		e.named = append(e.named, n)
	}
}

// firstGroup returns the first group of a match that is not empty, nil if there is none.
func firstGroup(m [][]byte) []byte {
	for _, group := range m[min(1, len(m)):] {
		if len(group) > 0 {
			return group
		}
	}
	return nil
}

// podOf returns the pod that a line of kubectl is about, "" if there is none.
func (s *Scanner) podOf(l *line) string {
	if bytes.Contains(l.raw, []byte("pod")) || bytes.IndexByte(l.raw, '/') > 0 || bytes.Contains(l.raw, []byte("✖")) {
		if pod := firstGroup(podName().FindSubmatch(l.raw)); pod != nil {
			return plainText(pod)
		}
	}
	if d := s.described; d != nil && d.stream == l.stream && l.number-d.number < 200 && (l.raw[0] == ' ' || l.raw[0] == '\t' || bytes.HasPrefix(l.raw, []byte("Reason:"))) {
		return d.host
	}
	return ""
}

// podStarted matches a line of kubectl that says that all containers of a pod run.
var podStarted = lazyRegexp(`\bStarted container\b|^[a-z0-9][a-z0-9.-]*\s+(\d+)/(\d+)\s+Running\b`)

// startRows are the rows about what Kubernetes tries again until a pod starts: volumes,
// images, nodes, probes.
func startRows() []string {
	return []string{rowMount, rowScheduling, rowImage, rowProbe, rowContainer, rowRegistry}
}

// readPodStarted marks what kept a pod from starting as handled.
func (s *Scanner) readPodStarted(l *line) {
	m := podStarted().FindSubmatch(l.raw)
	if m == nil || !bytes.Equal(m[1], m[2]) {
		return
	}
	pod := s.podOf(l)
	for _, key := range startRows() {
		if g := s.groups[key+"\x00"]; g != nil && pod != "" {
			for _, e := range g.events {
				e.handled = e.handled || e.host == pod && e.log == l.stream.log
			}
		}
	}
}

// readStopping notes the first line that says that a worker was told to stop. What the
// workers print after it may be an effect.
func (s *Scanner) readStopping(l *line) {
	if s.job.stopping == nil {
		s.job.stopping = s.newEvent(s.matcher.byKey[rowStopped], l)
	}
}
