package diagnose

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxEntries bounds each table of a job.
const maxEntries = 1 << 16

// job holds what the lines say about the job.
type job struct {
	world     int // number of ranks, the largest that a line names; 0: unknown
	writers   writers
	pids      map[process]membership
	hosts     map[int]string      // by rank; findHosts fills it
	byPID     map[int]int         // ranks by pids that only one host has; findHosts fills it
	inits     map[initKey]lineRef // ranks that began to initialise a communicator: the line
	buses     map[busKey]int      // the rank that uses a GPU
	sharedGPU *event              // two ranks on one GPU, as NCCL's lines say
	nccl      ncclLines
	watchdogs
	endings
	facts    map[Fact]bool
	failed   bool // a launcher reports a failure
	overcome outcomes
}

// endings holds how workers ended.
type endings struct {
	ends      []workerEnd
	taskHosts map[int]string // by task of Slurm
	lastExit  *event         // the last line with an exit code that is not 0
	hint      *event         // words of a failure in the last lines of a log
	stopping  *event         // the first line that says that a worker was told to stop
	wentWell  map[int]bool   // logs with a line that says that the job ended well
	exited    map[int]*event // ranks that ended normally
	named     *event         // the process that mpirun named last
	reread    int64          // lines of the log that lastWords read
	hydra     *event         // the process of which mpiexec tells the end in the next lines
}

// watchdogs holds what torch's watchdogs say.
type watchdogs struct {
	timeouts     map[int]collectiveTimeout // by rank
	firstTimeout *event                    // the earliest in the logs
}

// writers holds the ranks, local ranks and hosts that print into the logs.
type writers struct {
	ranks  map[int]struct{}
	locals map[int]struct{} // local ranks
	hosts  map[string]struct{}

	announced announcements
}

// ncclLines holds what the lines say about NCCL.
type ncclLines struct {
	addresses map[string]string // the hosts of the addresses that ranks announced
	version   string            // the last that a line named
	versions  map[string]string // by host
	ras       []lineRef         // frames of its RAS thread
	frames    []lineRef         // frames of libnccl
}

func newJob() job {
	return job{
		facts: map[Fact]bool{}, writers: writers{map[int]struct{}{}, map[int]struct{}{}, map[string]struct{}{}, announcements{ranks: map[int]*announcement{}}},
		pids: map[process]membership{}, inits: map[initKey]lineRef{}, buses: map[busKey]int{},
		nccl: ncclLines{versions: map[string]string{}, addresses: map[string]string{}}, watchdogs: watchdogs{timeouts: map[int]collectiveTimeout{}}, overcome: outcomes{}, endings: endings{exited: map[int]*event{}, taskHosts: map[int]string{}, wentWell: map[int]bool{}},
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

type busKey struct{ comm, host, bus string }

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
	if l.rank >= 0 && len(j.writers.ranks) < maxEntries {
		j.writers.ranks[l.rank] = struct{}{}
	}
	if l.local >= 0 && len(j.writers.locals) < maxEntries {
		j.writers.locals[l.local] = struct{}{}
	}
	if l.host != "" && len(j.writers.hosts) < 2 {
		j.writers.hosts[l.host] = struct{}{} // two are enough: only whether there are several counts
	}
}

// jobLines returns the lines that the Scanner reads besides those of the rows.
func jobLines() []jobLine {
	return []jobLine{
		{[]string{"traceback (most recent call last)", ` file "`, "exception ignored ", "atexit._run_exitfuncs"}, func(*Scanner, *line) {}},
		{[]string{"successfully finished", "done training", "train finished", "training ", "succeeded", "successful", "exited with code 0", "exit code 0", "exit code: 0", "exit status 0", "exit_code\":", "exitcode\":", ".fit` stopped", "values : 0 ok", "total run time: ", "w&b file", "test result: ok", "# fail 0", " tests in ", " test in ", "ok  \t", "train_runtime", "training is done", "status: ok", "(100%) done", "passed"}, (*Scanner).readSuccess},
		{[]string{" running at ", "   exit code: ", "   exit status: ", "   killed by signal: "}, (*Scanner).readHydra},
		{[]string{"mpi_abort was invoked on rank ", "application called mpi_abort("}, (*Scanner).readAbort},
		{[]string{"exited on", "signal 4 (", "signal 6 (", "signal 7 (", "signal 8 (", "signal 9 (", "signal 11 (", "signal 15 ("}, (*Scanner).readMpirun},
		{[]string{"was not called before program exit", "has not been destroyed before "}, (*Scanner).readExit},
		{[]string{"failed (failures=", "failed (errors="}, (*Scanner).readFailedTests},
		{[]string{"nfs: server "}, (*Scanner).readServerBack},
		{[]string{"will restart worker group", ": restart ", "reset workers: ", "restoring the last commit", "recovered from "}, (*Scanner).readRestart},
		{[]string{"exit code", "exit status", "exited with ", "return code", "core dumped", "returned non-zero", "exitcode"}, (*Scanner).readExitCode},
		{[]string{"negsignal.", "code=killed", "code=dumped", " by signal", " with signal", " from signal", " on signal", " to signal", "signal: killed"}, (*Scanner).readSignal},
		{[]string{"process name: "}, (*Scanner).readProcessName},
		{[]string{"target node:", "node:  ", " host: ", "hostname: ", "executable: ", "application name: ", "successfully assigned ", "\tip: ", "    ip: ", "name:  "}, (*Scanner).readDetail},
		{[]string{"/task:"}, (*Scanner).readMissingTask},
		{[]string{" died from signal ", " exited with code ", "pe rank ", "first noticed rank ", "mpi process (rank: ", "plexec the process terminated ", "exits with return code = ", "status failed ", "the trainer process with rank=", "signaled to shutdown with signal ", " crashed with exit code ", "failed (exitcode"}, (*Scanner).readEnd},
		{[]string{"started container", " running "}, (*Scanner).readPodStarted},
		{[]string{"received sigterm", "bypassing sigterm", "received signal 15", "received 15 death signal", "]: terminated"}, (*Scanner).readStopping},
		{[]string{"() (pid="}, (*Scanner).readRayTask},
		{[]string{"nranks "}, (*Scanner).readInit},
		{[]string{"bootstrap : using ", "bootstrap: using "}, (*Scanner).readAddress},
		{[]string{"nccl_net set by environment to ib", "nccl_net=ib", "network ib not found", "using network ib"}, func(s *Scanner, _ *line) { s.job.facts[AskedInfiniBand] = true }},
		{[]string{"nccl version "}, (*Scanner).readVersion},
		{[]string{"rasmsg", "rasthread", "rasclient", "rascoll", "rasnet", "rascomm", "rasconn", "raspeer", "src/ras/", "ncclras"}, func(s *Scanner, l *line) {
			s.job.nccl.ras = append(s.job.nccl.ras[:min(len(s.job.nccl.ras), 256)], l.ref())
		}},
		{[]string{"libnccl.so"}, func(s *Scanner, l *line) {
			s.job.nccl.frames = append(s.job.nccl.frames[:min(len(s.job.nccl.frames), 256)], l.ref())
		}},
		{[]string{"watchdog caught collective operation timeout", "detected by watchdog at work"}, (*Scanner).readWatchdog},
		{[]string{"first observed failure", "failures:"}, (*Scanner).readElastic},
		{[]string{" exited with code ", " was killed by sig"}, (*Scanner).readGorun},
		{[]string{"srun: error: "}, (*Scanner).readSrun},
		{[]string{"global_rank: ", "global rank: ", " of world size "}, (*Scanner).readAnnouncement},
		{[]string{"world_size"}, (*Scanner).readWorldSize},
	}
}

func (l *line) ref() lineRef { return lineRef{l.stream.log, l.number} }

var (
	initLine    = lazyRegexp(`comm 0x[0-9a-fA-F]+ rank (\d+) n[rR]anks (\d+)(?:.* busId (\w+))?(?:.* commId (0x\w+))?.* - (?:Init )?(START|COMPLETE|Init COMPLETE)`)
	addressLine = lazyRegexp(`Bootstrap ?: Using (?:\[\d+\])?[\w.@-]+:([0-9a-fA-F.:]+)(?:%\w+)?<`)
	versionLine = lazyRegexp(`NCCL version (\d+\.\d+\.\d+)\+`)
	worldLine   = lazyRegexp(`(?i)world_size\W{1,4}(\d{1,7})\b`)
)

// readInit reads NCCL's Init START and Init COMPLETE. They show which process has
// which rank, and which ranks hang there.
func (s *Scanner) readInit(l *line) {
	m := initLine().FindSubmatch(l.raw)
	if m == nil {
		return
	}
	rank, _ := strconv.Atoi(string(m[1]))
	size, _ := strconv.Atoi(string(m[2]))
	j := &s.job
	p := process{l.host, l.pid}
	if l.pid > 0 && size >= j.pids[p].size && len(j.pids) < maxEntries {
		j.pids[p] = membership{rank, size}
	}
	j.world = max(j.world, size)
	if len(m[4]) == 0 { // releases without commId print no START either
		return
	}
	key := initKey{string(m[4]), rank}
	done := string(m[5]) != "START"
	if done || len(j.inits) < maxEntries {
		if done {
			delete(j.inits, key)
		} else {
			j.inits[key] = l.ref()
		}
	}
	s.recordGPU(l, busKey{key.comm, l.host, string(m[3])}, rank)
}

// recordGPU records the rank that uses a GPU, and finds two ranks of one
// communicator on one GPU.
func (s *Scanner) recordGPU(l *line, key busKey, rank int) {
	if key.bus == "" || key.host == "" {
		return
	}
	other, known := s.job.buses[key]
	switch {
	case !known && len(s.job.buses) < maxEntries:
		s.job.buses[key] = rank
	case known && other != rank && s.job.sharedGPU == nil:
		e := s.newEvent(s.matcher.byKey[rowSharedGPU], l)
		e.kind, e.derived = Clue, true
		e.named = []int{min(other, rank), max(other, rank)}
		s.job.sharedGPU = e
	}
}

// readAddress reads the address under which a rank of NCCL is reached.
func (s *Scanner) readAddress(l *line) {
	if m := addressLine().FindSubmatch(l.raw); m != nil && l.host != "" && len(s.job.nccl.addresses) < maxTracked {
		s.job.nccl.addresses[string(m[1])] = l.host
	}
}

// nameHost adds the host to a peer that a line names by its address.
func (j *job) nameHost(peer string) string {
	address, _, _ := strings.Cut(peer, "<")
	host := j.nccl.addresses[address]
	if host == "" || host == peer {
		return peer
	}
	return peer + " on " + host
}

// readVersion reads the version that NCCL itself prints. The version in torch's
// errors is the version with which torch was built.
func (s *Scanner) readVersion(l *line) {
	m := versionLine().FindSubmatch(l.raw)
	if m == nil {
		return
	}
	s.job.nccl.version = string(m[1])
	if l.host != "" && len(s.job.nccl.versions) < maxTracked {
		s.job.nccl.versions[l.host] = s.job.nccl.version
	}
}

// versionsText lists the versions of NCCL with the hosts that loaded them. It
// returns "" if all hosts loaded the same.
func (j *job) versionsText() string {
	hosts := map[string][]string{}
	for _, host := range slices.Sorted(maps.Keys(j.nccl.versions)) {
		v := j.nccl.versions[host]
		hosts[v] = append(hosts[v], host)
	}
	if len(hosts) < 2 {
		return ""
	}
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(hosts)) {
		on := hosts[v]
		if more := len(on) - 3; more > 0 {
			on = append(on[:3:3], fmt.Sprintf("%d more", more))
		}
		parts = append(parts, v+" on "+strings.Join(on, ", "))
	}
	return strings.Join(parts, "; ")
}

func (s *Scanner) readWorldSize(l *line) {
	if m := worldLine().FindSubmatch(l.raw); m != nil {
		n, _ := strconv.Atoi(string(m[1]))
		s.job.world = max(s.job.world, min(n, 1<<20))
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
