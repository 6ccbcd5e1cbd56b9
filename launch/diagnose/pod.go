package diagnose

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
)

const (
	// describedPod matches the pod of kubectl describe, and the host of qacct.
	describedPod = `^hostname {4,}(?P<host3>[\w.-]+)\s*$|^Name:  +(?P<host>[\w.-]+)\s*$|^\s+\w.*\sScheduled\s+.*Successfully assigned (?:[\w-]+/)?(?P<host2>[\w.-]+) to `
	// nodeLine matches a line that names the node of a pod.
	nodeLine = `Successfully assigned (?:[\w.-]+/)?(?P<pod>[a-z0-9][\w.-]*) to (?P<node>[\w.-]*\w)|^Node:\s+(?P<node2>[a-z0-9][\w.-]*)(?:/|\s*$)|\bkubelet, (?P<node3>[\w.-]*\w)|^(?P<pod4>[a-z0-9][a-z0-9.-]*)\s+\d+/\d+\s+[A-Z]\w+\s.*\s(?:<none>|[\d.]+)\s+(?P<node4>[a-z][\w.-]*)\s+<none>`
	// podState matches the row of a pod that does not run, in the table of kubectl get pods.
	podState = `^(?P<pod>[a-z0-9][a-z0-9.-]*)\s+0/\d+\s+(?P<state>Pending|ContainerCreating|ImagePullBackOff|ErrImagePull|CrashLoopBackOff|Evicted|OOMKilled|Unknown|Init:\S+)\s`
	// podStarted matches a line of kubectl that says that all containers of a pod run.
	podStarted = `\bStarted (?:container|with docker id)\b|\bSuccessfully pulled image\b|^[a-z0-9][a-z0-9.-]*\s+(?P<ready>\d+)/(?P<all>\d+)\s+ Running `
)

// podName matches the pod in an event of Kubernetes, and in a table of pods.
var podName = match.Lazy(`(?:^|\s|Pod |pod )(?:pod|node)/(?P<host>[\w.-]+)|^(?P<host2>[a-z0-9][a-z0-9.-]*)\s+\d+/\d+\s+\w|✖\s+\S+\s+\S+\s+(?P<host3>[a-z0-9][a-z0-9.-]*)\s|\bpod[ =]"(?:[\w-]+/)?(?P<host4>[a-z0-9][a-z0-9.-]*)`)

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

// readPodState reads the state of a pod that does not run.
func (s *Scanner) readPodState(_ *line, f *match.Fields) {
	if len(s.job.waiting) < maxEntries {
		s.job.waiting[f.Text("pod")] = f.Text("state")
	}
}

// sharpenPod says of a host that was not found or reached that it is a pod which does not run.
func (s *Scanner) sharpenPod(f *Finding) {
	pod, _, _ := strings.Cut(f.Host, ".")
	if state := s.job.waiting[pod]; state != "" && (f.ID == "X-DNS" || f.ID == "X-SSH" || f.ID == "X-CONNECT") {
		f.Meaning += ": its pod does not run (" + state + ")"
		f.Fix = "kubectl describe pod " + pod + " says why; the launcher must wait until all pods run"
	}
}

// podOf returns the pod that a line of kubectl is about, "" if there is none.
func (s *Scanner) podOf(l *line) string {
	if bytes.Contains(l.raw, []byte("pod")) || bytes.IndexByte(l.raw, '/') > 0 || bytes.Contains(l.raw, []byte("✖")) {
		if f := match.FindFields(podName(), l.raw); f != nil {
			return f.Text("host")
		}
	}
	if d := s.described; d != nil && d.stream == l.stream && l.number-d.number < 200 && (l.raw[0] == ' ' || l.raw[0] == '\t' || bytes.HasPrefix(l.raw, []byte("Reason:")) || bytes.HasPrefix(l.raw, []byte("Output:")) || bytes.HasPrefix(l.raw, []byte("failed "))) {
		return d.host
	}
	return ""
}

// startRows are the rows about what Kubernetes tries again until a pod starts: volumes,
// images, nodes, probes.
func startRows() []string {
	return []string{catalogue.RowMount, catalogue.RowMountRefused, catalogue.RowScheduling, catalogue.RowImage, catalogue.RowImageRefused, catalogue.RowProbe, catalogue.RowContainer, catalogue.RowRegistry}
}

// readPodStarted marks what kept a pod from starting as handled.
func (s *Scanner) readPodStarted(l *line, f *match.Fields) {
	if f.Text("ready") != f.Text("all") {
		return
	}
	pod := s.podOf(l)
	delete(s.job.waiting, pod)
	for _, key := range startRows() {
		if g := s.groups[key]; g != nil && pod != "" {
			for _, e := range g.events {
				e.handled = e.handled || e.host == pod && e.log == l.stream.log
			}
		}
	}
}
