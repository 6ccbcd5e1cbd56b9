package diagnose

import (
	"path/filepath"
	"strconv"

	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/prefix"
)

// Log says where text comes from.
type Log struct {
	Name string // a file's name
	Rank int    // the rank that wrote it; -1: several, or unknown
	// Local is the local rank that wrote it; -1 as for Rank.
	Local int
	Host  string
	home  soleName // on which the log says that its program runs
	ranOn soleName // on which a scheduler says that the job ran, or its tasks have failed

	// isTail means that it is the end of one worker's output. Such logs come in the
	// order of the failures. Times and numbers of their lines mean nothing.
	isTail bool
	// isTyped means that it is what a command printed that a user typed.
	isTyped bool
}

// soleName is the name of a host or a job on which several lines agree.
type soleName struct {
	name    string
	several bool
}

// add adds the name in a line.
func (h *soleName) add(name string) {
	h.several = h.several || h.name != "" && !sameHost(h.name, name)
	h.name = name
}

// known returns the name, "" if no line has one or they have several.
func (h soleName) known() string {
	if h.several {
		return ""
	}
	return h.name
}

var (
	rankName = match.Lazy(`(?i)(?:rank[-_. ]?|^rsl\.(?:error|out)\.|^log\.\w+\.0)(\d{1,6})(?:\D|$)`)
	// hostName matches the name of a file with the kernel's log of a host, or with the output
	// of a node.
	hostName = match.Lazy(`(?:^|/)(?:dmesg|kern(?:el)?|syslog|messages|journal(?:ctl)?)[-_.](?P<host>[a-z][a-z0-9-]*\d[a-z0-9-]*|(?:\d{1,3}\.){3}\d{1,3})(?:[._]\w+)*$|(?:^|/)(?P<host2>[a-z][a-z0-9-]*\d[a-z0-9-]*?|(?:\d{1,3}\.){3}\d{1,3})(?:[-_. ]|/var/log/)(?:dmesg|kern(?:el)?|syslog|messages|journal(?:ctl)?)\b|(?:^|/)(?P<host3>(?:node|host|server|machine|compute|nid|cn)[-_.]?\d{1,6})\.(?:log|out|err|txt)$`)
	// noHostName matches names in such places that are none of a host.
	noHostName = match.Lazy(`^(?:user|job|run|exp|rank|attempt|epoch|step|task|worker|trial|test|part|day|v)[-_.]?\d`)
	localName  = match.Lazy(`attempt_\d+/(\d{1,5})/(?:stdout|stderr)\.log$`)
)

// LogOf reads from a file's name which worker wrote the file: rank3.log is of
// rank 3, rsl.error.0003 of WRF too, and the folders of torchrun and gorun contain the local rank.
func LogOf(name string) Log {
	log := Log{Name: name, Rank: -1, Local: -1}
	if m := localName().FindStringSubmatch(filepath.ToSlash(name)); m != nil {
		log.Local, _ = strconv.Atoi(m[1])
	} else if m := rankName().FindStringSubmatch(filepath.Base(name)); m != nil {
		log.Rank, _ = strconv.Atoi(m[1])
	}
	if f := match.FindFields(hostName(), []byte(filepath.ToSlash(name))); f != nil && !noHostName().MatchString(f.Text("host")) {
		log.Host = f.Text("host")
	}
	return log
}

// nameWriter fills what the prefixes of a line do not say of its writer from the log.
func (log *Log) nameWriter(h *prefix.Head) {
	if h.Rank < 0 {
		h.Rank = log.Rank
	}
	if h.Local < 0 {
		h.Local = log.Local
	}
	if h.Host == "" {
		h.Host = log.Host
	}
}

// homeLine matches a line that names the host on which the program of a log runs.
const homeLine = `(?i)^\W*(?:(?:exec(?:ution)?[ _-]?host|hostname|node ?(?:name|list)|SLURM\w*_NODE(?:LIST|NAME)|running on(?: host| node)?|(?:job|script|task|run) (?:is )?(?:started|starting|running|executing|runs|launched)(?: at| on)(?: host| node)?|slurm assigned me the node\(s\))\s*[:=]?\s+|(?:host|nodes?)(?::| =|=)\s*)(?P<host>[a-z][\w-]*\d[\w.-]*)(?:/\d+)?(?: at \w.*)?\s*$`

// noHost matches names of devices and of parts of models, which look like those of hosts.
var noHost = match.Lazy(`(?i)^(?:cuda|gpus?|tpu|mps|cpu|xpu|npu|conv|fc|layer|op|epoch|step|rtx|mi|[ahvblt])[\d:]`)

// readHome reads the host of the present log or section.
func (s *Scanner) readHome(_ *line, f *match.Fields) {
	if host := f.Text("host"); !noHost().MatchString(host) {
		s.present().home.add(host)
	}
}

// present returns the section that is read, or else the log.
func (s *Scanner) present() *Log {
	if s.section != nil {
		return s.section
	}
	return &s.logs[len(s.logs)-1]
}
