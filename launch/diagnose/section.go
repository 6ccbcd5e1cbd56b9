package diagnose

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/prefix"
	"github.com/gorun/gorun/launch/diagnose/wording"
)

// sections are the files of which tail, head or a command prints the lines of a log.
type sections struct {
	section *Log       // the present one; nil: unknown
	last    string     // its name, or that of the one before
	from    checkpoint // where it begins
	command string     // what a user typed last behind a prompt
	typed   checkpoint // where the command stands
	asked   bool       // the line before asks the shell for its exit code
	// restarted is where the output of a container before its restart begins, if the present
	// section is of the attempt after it, which has shown no progress yet.
	restarted *checkpoint
}

// sectionTitle matches the line that stands before the lines of another file: that of tail
// and head (`==> rank3.log <==`), and those that scripts and people write, which name a file
// or a host and what was run there (`===== gpu-3: dmesg =====`).
var sectionTitle = match.Lazy(`^(?:={2,}|-{2,}|#{2,})>? ?(?P<title>\S.{0,200}?)(?: ?<?(?:={2,}|-{2,}|#{2,}):?)?$`)

// titleOfFile matches a title that names a file, or a host and a command.
var titleOfFile = match.Lazy(`^(?:\S+ )?(?:\S*/)?\S+\.(?:log|out|err|txt|stderr|stdout)\b|^/\S+$|^(?P<host>[a-z][\w.-]*\d[\w.-]*): (?:dmesg|journalctl|nvidia-smi|kubectl|cat|tail|head|log\b|\S+\.service)|^(?:dmesg|journalctl|kernel log|syslog) (?:of|on|from) (?P<host3>[a-z][\w.-]*\d[\w.-]*)$|^(?:worker|head|node|host|master|server|rank) \((?P<host2>(?:\d{1,3}\.){3}\d{1,3}|[a-z][\w.-]*\d[\w.-]*)\) \S|^(?:Begin|End) global rank \d+ STD(?:ERR|OUT)$`)

// titleOf returns the title of a line that begins the lines of another file, and the host
// that it names. ok reports whether p is such a line.
func titleOf(p []byte) (title string, host string, ok bool) {
	if len(p) < 6 || len(p) > 300 || p[0] != '=' && p[0] != '-' && p[0] != '#' || p[1] != p[0] {
		return "", "", false
	}
	f := match.FindFields(sectionTitle(), p)
	if f == nil {
		return "", "", false
	}
	title = f.Text("title")
	named := match.FindFields(titleOfFile(), []byte(title))
	if named != nil {
		host = named.Text("host")
	}
	isOfTail := bytes.HasPrefix(p, []byte("==> ")) && bytes.HasSuffix(p, []byte(" <=="))
	return title, host, named != nil || isOfTail
}

// readSection reads a line that begins the lines of another file.
func (s *Scanner) readSection(p []byte) bool {
	s.readShellCode(p)
	title, host, ok := titleOf(p)
	if !ok {
		return s.readPrompt(p)
	}
	if strings.HasPrefix(title, "End global rank ") { // of Composer's launcher, which goes on
		s.section, s.sections.restarted = nil, nil
		return true
	}
	section := LogOf(title)
	section.Host = cmp.Or(host, section.Host)
	s.beginSection(&section)
	s.now = prefix.Stamp{}
	s.flood.present.decides = true
	return true
}

// promptLine matches a command behind the prompt of a shell, and the host that the prompt
// names.
var promptLine = match.Lazy(`^(?:\[?(?:[\w.-]+@)?(?P<host>[a-zA-Z][\w.-]*)(?:[: ][~/][^$#]{0,60})?\]?[$#]|\$) (?P<command>\S.*)$`)

// checkpoint is a place in a log, and whether the job had failed there.
type checkpoint struct {
	number int64
	failed bool
}

// here returns the present place.
func (s *Scanner) here() checkpoint { return checkpoint{s.number, s.job.failed} }

// overcomeSince forgets the ends of workers between two places of the present log, and marks
// the errors there as overcome.
func (s *Scanner) overcomeSince(from checkpoint, to int64) {
	log := len(s.logs) - 1
	isBetween := func(e *event) bool { return e.log == log && from.number <= e.number && e.number < to }
	s.endTracebacks(func(*tracebackReader) bool { return true })
	for _, g := range s.groups {
		for _, e := range g.events {
			e.handled = e.handled || isBetween(e)
		}
	}
	s.job.ends = slices.DeleteFunc(s.job.ends, func(end workerEnd) bool { return isBetween(end.event) })
	if exit := s.job.firstExit; exit != nil && isBetween(exit) {
		s.job.firstExit = nil
	}
	if exit := s.job.lastExit; exit != nil && isBetween(exit) {
		s.job.lastExit = nil
	}
	s.job.failed = from.failed
	s.job.restarted[log] = to
}

// oneHostCommand matches a command that prints what one host knows, and the host that it names.
var oneHostCommand = match.Lazy(`^(?:sudo )?(?:ssh (?:-\w \d+ |-\S+ )*(?:[\w-]+@)?(?P<host>[a-zA-Z][\w.-]*) ['"]?(?:sudo )?)?(?:(?:dmesg|journalctl|nvidia-smi|ibstat|ibv_\w+|systemctl|lspci|df|free|ulimit)(?:\W|$)|(?:cat|tail|grep|less|zgrep)\b.* /var/log/)`)

// podCommand matches a command that prints what a pod printed, and the pod if it names one.
var podCommand = match.Lazy(`^kubectl (?:-n \S+ )?logs (?:(?:-n \S+ |-[fp] |--\S+ )*(?:pod/)?(?P<pod>[a-z0-9][a-z0-9.-]*\d[a-z0-9.-]*)(?: |$))?`)

// plainLauncher matches a command that starts a job and whose exit code the shell tells.
var plainLauncher = match.Lazy(`^(?:srun|mpirun|mpiexec|prterun|torchrun|accelerate|deepspeed|horovodrun|gorun|python[\d.]* [^-\s]|python[\d.]* -m |docker run|apptainer|singularity)[^|;&]*$`)

// readPrompt reads a command that a user typed. What a command prints about one host is as
// a file of that host, up to the next command. It reports false, for others read the line too.
func (s *Scanner) readPrompt(p []byte) bool {
	front := p[:min(len(p), 120)]
	if at := bytes.IndexAny(front, "$#"); at < 0 || at+1 >= len(front) || front[at+1] != ' ' {
		return false
	}
	f := match.FindFields(promptLine(), p[:min(len(p), 300)])
	if f == nil {
		return false
	}
	if s.section != nil && s.section.isTyped {
		s.section, s.sections.restarted = nil, nil
	}
	command := f.Text("command")
	if s.asked = command == "echo $?"; !s.asked {
		s.sections.command, s.typed = command, s.here()
	}
	section := Log{Name: command, Rank: -1, Local: -1, isTyped: true}
	if named := match.FindFields(oneHostCommand(), []byte(command)); named != nil {
		section.Host = cmp.Or(named.Text("host"), f.Text("host"))
	} else if named := match.FindFields(podCommand(), []byte(command)); named == nil {
		return false
	} else if pod := named.Text("pod"); !strings.Contains(pod, "launcher") { // that prints what others wrote
		section.Host = pod
	}
	s.beginSection(&section)
	return false
}

// readShellCode reads the line below `echo $?`: the exit code of a command that started a job.
func (s *Scanner) readShellCode(p []byte) {
	code := string(bytes.TrimSpace(p))
	if !s.asked || code == "" {
		return
	}
	s.asked = false
	switch {
	case !plainLauncher().MatchString(s.sections.command):
	case code == "0":
		s.overcomeSince(s.typed, s.number)
	case len(code) <= 3 && strings.Trim(code, "0123456789") == "":
		s.job.failed = true
	}
}

// ofPrevious matches what names the output of a container before its restart.
var ofPrevious = match.Lazy(`[-_. ](?:-?-?prev(?:ious)?|-p)\b`)

// beginSection begins the lines of another file. After those of a container before its restart
// come those of the attempt after it.
func (s *Scanner) beginSection(next *Log) {
	last, from := s.sections.last, s.from
	s.section, s.sections.last, s.from, s.sections.restarted = next, next.Name, s.here(), nil
	last, _, _ = strings.Cut(last, " |")
	present, _, _ := strings.Cut(next.Name, " |")
	if ofPrevious().MatchString(last) && ofPrevious().ReplaceAllString(last, "") == present {
		s.sections.restarted = &from
	}
}

// readNext marks what a container printed before its restart as overcome, if l shows that the
// attempt after it made progress.
func (s *Scanner) readNext(l *line) {
	if from := s.sections.restarted; from != nil && s.matcher.wordings.Has(wording.Step, l.raw) {
		s.sections.restarted = nil
		s.overcomeSince(*from, s.from.number)
	}
}

// sectionName returns the name of the file of which the log contains the present lines, ""
// if it is unknown.
func (s *Scanner) sectionName() string {
	if s.section == nil {
		return ""
	}
	return match.PlainText([]byte(s.section.Name))
}
