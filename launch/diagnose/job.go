package diagnose

import (
	"regexp"
	"strconv"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
)

// maxEntries bounds each table of a job.
const maxEntries = 1 << 16

// job holds what the lines say about the job.
type job struct {
	world   int // number of ranks, the largest that a line names; 0: unknown
	writers writers
	pids    map[process]membership
	nodes   map[string]string   // of Kubernetes, by pod
	waiting map[string]string   // pods that do not run: their states
	hosts   map[int]string      // by rank; findHosts fills it
	byPID   map[int]int         // ranks by pids that only one host has; findHosts fills it
	inits   map[initKey]lineRef // ranks that began to initialise a communicator: the line
	nccl    ncclLines
	watchdogs
	endings
	facts  map[catalogue.Fact]string // what lines say of the whole job; "": nothing
	failed bool                      // a launcher reports a failure
	attempts
}

// attempts holds the lines from which on the job was tried again.
type attempts struct {
	overcome  outcomes
	restarted outcomes         // the lines after which the workers started once more
	commands  map[command]bool // that a user typed
}

// endings holds how workers ended.
type endings struct {
	ends       []workerEnd
	taskHosts  map[int]string // by task of Slurm
	taskRanks  int            // how many tasks there are, if a host has several, so that their numbers are ranks; findHosts finds it
	firstExit  *event         // the first line with an exit code that is not 0, of this attempt
	lastExit   *event         // the last one of all
	failedTask lineRef        // the last line of a table that says that a task failed
	lsfReport  lineRef        // the line with the host in the report of LSF
	failedJobs soleName       // the jobs of Slurm that tables say have failed
	hint       *event         // words of a failure in the last lines of a log
	stopping   *event         // the first line that says that a worker was told to stop
	wentWell   map[int]bool   // logs with a line that says that the job ended well
	exited     map[int]*event // ranks that ended normally
	ending     *event         // the worker that a launcher named last, of which it tells the end in the next lines
	reread     int64          // lines of the log that linesBefore yielded
}

// watchdogs holds what torch's watchdogs say.
type watchdogs struct {
	timeouts     map[int]collectiveTimeout // by rank
	stopped      map[int]struct{}          // ranks of which a call failed
	folded       int                       // time-outs of other ranks that Ray left out
	firstTimeout *event                    // the earliest in the logs
	queued       map[int]queued            // by rank, after a time-out of another rank
}

// writers holds the ranks, local ranks and hosts that print into the logs.
type writers struct {
	ranks  map[int]struct{}
	locals map[int]struct{} // local ranks
	differ bool             // a line has a rank and another local rank
	hosts  map[string]struct{}

	agents    agents
	endpoint  soleName // at which the agents meet
	spans     []span   // the ranks of agents; findSpans fills it
	announced announcements
}

func newJob() job {
	return job{
		facts: map[catalogue.Fact]string{}, writers: writers{ranks: map[int]struct{}{}, locals: map[int]struct{}{}, hosts: map[string]struct{}{}, agents: agents{}, announced: newAnnouncements()},
		pids: map[process]membership{}, nodes: map[string]string{}, waiting: map[string]string{}, inits: map[initKey]lineRef{},
		nccl: ncclLines{versions: byHost{}, addresses: endpoints{}, others: endpoints{}, variables: map[string]byHost{}}, watchdogs: watchdogs{timeouts: map[int]collectiveTimeout{}, stopped: map[int]struct{}{}, queued: map[int]queued{}}, attempts: attempts{outcomes{}, outcomes{}, map[command]bool{}}, endings: endings{exited: map[int]*event{}, taskHosts: map[int]string{}, wentWell: map[int]bool{}},
	}
}

// process names a process by its host and pid.
type process struct {
	host string
	pid  int
}

// membership is the rank of a process in its largest communicator, and that
// communicator's size.
type membership struct{ rank, size int }

// initKey names a rank of a communicator.
type initKey struct {
	comm string
	rank int
}

// lineRef names a line of the logs.
type lineRef struct {
	log    int
	number int64
}

// near reports whether s is at most n lines after t, or at most 5 before it.
func (s lineRef) near(t lineRef, n int64) bool {
	return s.log == t.log && s.number-t.number <= n && t.number-s.number <= 5
}

// recordWriter records the rank, local rank and host of a line.
func (j *job) recordWriter(l *line) {
	if l.Rank >= 0 && len(j.writers.ranks) < maxEntries {
		j.writers.ranks[l.Rank] = struct{}{}
	}
	if l.Local >= 0 && len(j.writers.locals) < maxEntries {
		j.writers.locals[l.Local] = struct{}{}
	}
	j.writers.differ = j.writers.differ || l.Rank >= 0 && l.Local >= 0 && l.Rank != l.Local
	if l.Host == "" {
		return
	}
	if len(j.writers.hosts) < 2 {
		j.writers.hosts[l.Host] = struct{}{} // two are enough: only whether there are several counts
	}
	if p := (process{l.Host, l.PID}); l.Rank >= 0 && l.PID > 0 && len(j.pids) < maxEntries {
		if _, known := j.pids[p]; !known {
			j.pids[p] = membership{l.Rank, 0}
		}
	}
}

// jobLines returns the lines that the Scanner reads besides those of the rows.
func jobLines() []jobLine {
	all := []jobLine{
		{pattern: `(?i)Traceback \(most recent call last\)| File "|Exception ignored |atexit\._run_exitfuncs`, mayRepeat: true},
		{pattern: successLine, read: (*Scanner).readSuccess, mayRepeat: true},
		{pattern: jobSuccessLine, read: (*Scanner).readJobSuccess, mayRepeat: true},
		{pattern: failedState, read: (*Scanner).readFailedState},
		{pattern: failedTaskLine, read: (*Scanner).readFailedTask},
		{pattern: exitZeroLine, read: (*Scanner).readExitZero, mayRepeat: true},
	}
	for _, pattern := range endPatterns() {
		all = append(all, jobLine{pattern: pattern, read: (*Scanner).readEnd})
	}
	return append(all, []jobLine{
		{pattern: stoppedLine, read: (*Scanner).readAgent},
		{pattern: failedLine, read: (*Scanner).readAgent},
		{pattern: endCodes, read: (*Scanner).readEndCode},
		{pattern: `^node (?P<host>\S+) exiting (?:improperly|without calling)`, read: (*Scanner).readEndHost},
		{pattern: `\*\*\* reported by process \[\d+,(?P<rank>\d{1,6})\]`, read: (*Scanner).readReporter},
		{pattern: exitCode, read: (*Scanner).readExitCode},
		{pattern: exitSignal, read: (*Scanner).readSignal},
		{pattern: `(?i)was not called before program exit|has not been destroyed before `, read: (*Scanner).readExit},
		{pattern: failureLine, read: (*Scanner).readFailure},
		{pattern: `nfs: server (?P<host>\S+) OK`, read: (*Scanner).readServerBack},
		{pattern: restartLine, read: (*Scanner).readRestart},
		{pattern: commandLine, read: (*Scanner).readCommand},
		{pattern: resumeLine, read: (*Scanner).readResume},
		{pattern: homeLine, read: (*Scanner).readHome},
		{pattern: lsfHostLine, read: func(s *Scanner, l *line, _ *match.Fields) { s.job.lsfReport = l.ref() }},
		{pattern: nodeLine, read: (*Scanner).readNode},
		{pattern: describedPod, read: (*Scanner).readDescribedPod},
		{pattern: `\*\*\* Check failure stack trace`, read: (*Scanner).readCheckFailure},
		{pattern: detailLine, read: (*Scanner).readDetail},
		{pattern: `^\s*/job:\w+/replica:\d+/task:(?P<rank>\d{1,6})\s*$|<stderr>:(?P<rank2>\d{1,6}): \[\w|(?P<label>^\[\w*(?:[Aa]ll[Rr]educe|[Aa]ll[Gg]ather|[Bb]roadcast)\w*)`, read: (*Scanner).readMissingTask},
		{pattern: podState, read: (*Scanner).readPodState},
		{pattern: podStarted, read: (*Scanner).readPodStarted},
		{pattern: `(?i)received sigterm|bypassing sigterm|received signal 15|received 15 death signal|\]: terminated`, read: (*Scanner).readStopping},
		{pattern: `ray::\S+\(\) \(pid=(?P<pid>\d+)(?:, ip=(?P<host>[^\s,)]+))?`, read: (*Scanner).readRayTask},
		{pattern: `comm 0x[0-9a-fA-F]+ rank (?P<rank>\d+) n[rR]anks (?P<size>\d+)(?:.* commId (?P<comm>0x\w+))?.* - (?:Init )?(?P<state>START|COMPLETE|Init COMPLETE)`, read: (*Scanner).readInit},
		{pattern: `Bootstrap ?: Using (?:\[\d+\])?(?P<interface>[\w.@-]+):(?P<address>[0-9a-fA-F.:]+)(?:%\w+)?<`, read: (*Scanner).readAddress},
		{pattern: `NET/Socket ?: Using \[0\]`, read: (*Scanner).readInterfaces},
		{pattern: `(?i)NCCL_NET set by environment to ib|NCCL_NET=ib|network ib not found|using network ib`, read: func(s *Scanner, _ *line, _ *match.Fields) { s.job.facts[catalogue.AskedInfiniBand] = "yes" }},
		{pattern: `(?P<name>NCCL_\w+) set by environment to (?P<value>[^\s.]+(?:\.[^\s.]+)*)`, read: (*Scanner).readVariable},
		{pattern: `NCCL version (?P<version>\d+\.\d+\.\d+)\+`, read: (*Scanner).readVersion},
		{pattern: `(?i)ras(?:msg|thread|client|coll|net|comm|conn|peer)|src/ras/|ncclras`, read: func(s *Scanner, l *line, _ *match.Fields) {
			s.job.nccl.ras = append(s.job.nccl.ras[:min(len(s.job.nccl.ras), 256)], l.ref())
		}},
		{pattern: `libnccl\.so`, read: func(s *Scanner, l *line, _ *match.Fields) {
			s.job.nccl.frames = append(s.job.nccl.frames[:min(len(s.job.nccl.frames), 256)], l.ref())
		}},
		{pattern: `(?i)watchdog caught collective operation timeout|detected by watchdog at work(?:: (?P<work>\d+))?|(?P<failed>Some NCCL operations have failed or timed out)`, read: (*Scanner).readWatchdog},
		{pattern: `Received a dump signal due to .*Last enqueued NCCL work: (?P<work>\d+)`, read: (*Scanner).readQueued},
		{pattern: `(?P<root>first observed failure)|^\s*Failures:\s*$`, read: (*Scanner).readElastic},
		{pattern: announceLine, read: (*Scanner).readAnnouncement},
		{pattern: `CPU Virtual Memory: +(?P<used>used = [\d.]+ GB, percent = (?:8[5-9]|9\d|100)(?:\.\d+)?%)`, read: (*Scanner).readHostMemory},
		{pattern: `(?:\brdzv_endpoint *[:=] *|--rdzv[-_]endpoint[ =])(?P<address>[\w\[][\w.\[\]:-]*)`, read: func(s *Scanner, _ *line, f *match.Fields) { s.job.writers.endpoint.add(f.Text("address")) }},
		{pattern: placeLine, read: (*Scanner).readPlace},
		{pattern: `(?i)world_size\W{1,4}(?P<size>\d{1,7})\b`, read: func(s *Scanner, _ *line, f *match.Fields) {
			s.job.world = max(s.job.world, min(f.Number("size"), 1<<20))
		}},
	}...)
}

// readHostMemory reads how much of its host's memory a program says is used.
func (s *Scanner) readHostMemory(l *line, f *match.Fields) {
	s.job.facts[catalogue.HostMemory], s.job.facts[catalogue.FullHost] = f.Text("used"), l.Host
}

func (l *line) ref() lineRef { return lineRef{l.stream.log, l.number} }

// readInit reads NCCL's Init START and Init COMPLETE. They show which process has
// which rank, and which ranks hang there.
func (s *Scanner) readInit(l *line, f *match.Fields) {
	rank, size := f.Number("rank"), f.Number("size")
	j := &s.job
	p := process{l.Host, l.PID}
	if l.PID > 0 && size >= j.pids[p].size && len(j.pids) < maxEntries {
		j.pids[p] = membership{rank, size}
	}
	j.world = max(j.world, size)
	key := initKey{f.Text("comm"), rank}
	if key.comm == "" { // releases without commId print no START either
		return
	}
	if f.Text("state") != "START" {
		delete(j.inits, key)
	} else if len(j.inits) < maxEntries {
		j.inits[key] = l.ref()
	}
}

// number returns the first group of re in p as a number, -1 if there is none.
func number(re *regexp.Regexp, p []byte) int {
	if m := re.FindSubmatch(p); m != nil {
		if n, err := strconv.Atoi(string(m[1])); err == nil {
			return n
		}
	}
	return -1
}
