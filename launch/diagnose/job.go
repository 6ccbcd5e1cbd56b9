package diagnose

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxFacts bounds each table of facts.
const maxFacts = 1 << 16

// job is what the lines tell about the job beside its failure.
type job struct {
	world    int // ranks, as far as a line tells; 0: none does
	printers printers
	pids     map[process]place
	hosts    map[int]string // by rank, worked out at the end
	byPID    map[int]place  // of pids that one host has, worked out at the end
	inits    map[initKey]initState
	buses    map[busKey]int // the rank of a GPU
	shared   *event         // two ranks on one GPU, as their lines of init tell
	nccl     library
	watch    map[int]wait // by rank
	watching *event       // the first of them
	ends     []ended
	failed   bool // a launcher says so
}

// printers are those that print into the logs.
type printers struct {
	ranks  map[int]struct{}
	locals map[int]struct{} // local ranks
	hosts  map[string]struct{}
}

// library is what the lines tell about NCCL.
type library struct {
	askedIB  bool              // NCCL_NET=IB, a message that it is not there, or a node that uses it
	version  string            // the last that a line told
	versions map[string]string // by host
	ras      []spot            // frames of its RAS thread
	frames   []spot            // frames of libnccl
}

func newJob() job {
	return job{
		printers: printers{map[int]struct{}{}, map[int]struct{}{}, map[string]struct{}{}},
		pids:     map[process]place{}, inits: map[initKey]initState{}, buses: map[busKey]int{},
		nccl: library{versions: map[string]string{}}, watch: map[int]wait{},
	}
}

// process is one of a host.
type process struct {
	host string
	pid  int
}

// place is a rank in the largest communicator that its process was seen in.
type place struct{ rank, size int }

// initKey is a rank's part in a communicator.
type initKey struct {
	comm string
	rank int
}

type initState struct {
	process
	at spot
}

type busKey struct{ comm, host, bus string }

// spot is a line of a log.
type spot struct {
	log    int
	number int64
}

// near reports whether s is within n lines after t, or shortly before it.
func (s spot) near(t spot, n int64) bool {
	return s.log == t.log && s.number-t.number <= n && t.number-s.number <= 5
}

// seen notes who prints.
func (j *job) seen(l *line) {
	if l.rank >= 0 && len(j.printers.ranks) < maxFacts {
		j.printers.ranks[l.rank] = struct{}{}
	}
	if l.local >= 0 && len(j.printers.locals) < maxFacts {
		j.printers.locals[l.local] = struct{}{}
	}
	if l.host != "" && len(j.printers.hosts) < 2 {
		j.printers.hosts[l.host] = struct{}{} // whether it is one is all that counts
	}
}

// facts are the lines that tell them. Words are in lower case.
func facts() []fact {
	return []fact{
		{[]string{"traceback (most recent call last)", ` file "`}, func(*Scanner, *line) {}},
		{[]string{"nranks "}, (*Scanner).noteInit},
		{[]string{"nccl_net set by environment to ib", "nccl_net=ib", "network ib not found", "using network ib"}, func(s *Scanner, _ *line) { s.job.nccl.askedIB = true }},
		{[]string{"nccl version "}, (*Scanner).noteVersion},
		{[]string{"rasmsg", "rasthread", "rasclient", "rascoll", "rasnet", "rascomm", "rasconn", "raspeer", "src/ras/", "ncclras"}, func(s *Scanner, l *line) {
			s.job.nccl.ras = append(s.job.nccl.ras[:min(len(s.job.nccl.ras), 256)], l.spot())
		}},
		{[]string{"libnccl.so"}, func(s *Scanner, l *line) {
			s.job.nccl.frames = append(s.job.nccl.frames[:min(len(s.job.nccl.frames), 256)], l.spot())
		}},
		{[]string{"watchdog caught collective operation timeout", "detected by watchdog at work"}, (*Scanner).noteWatchdog},
		{[]string{"first observed failure", "failures:", "(exitcode: "}, (*Scanner).noteElastic},
		{[]string{" exited with code ", " was killed by sig"}, (*Scanner).noteGorun},
		{[]string{"srun: error: "}, (*Scanner).noteSrun},
		{[]string{"world_size"}, (*Scanner).noteWorld},
	}
}

func (l *line) spot() spot { return spot{l.stream.log, l.number} }

var (
	initLine    = lazily(`comm 0x[0-9a-fA-F]+ rank (\d+) n[rR]anks (\d+)(?:.* busId (\w+))?(?:.* commId (0x\w+))?.* - (?:Init )?(START|COMPLETE|Init COMPLETE)`)
	versionLine = lazily(`NCCL version (\d+\.\d+\.\d+)\+`)
	worldLine   = lazily(`(?i)world_size\W{1,4}(\d{1,7})\b`)
)

// noteInit takes Init START and Init COMPLETE: who is who, and who hangs there.
func (s *Scanner) noteInit(l *line) {
	m := initLine().FindSubmatch(l.raw)
	if m == nil {
		return
	}
	rank, _ := strconv.Atoi(string(m[1]))
	size, _ := strconv.Atoi(string(m[2]))
	j := &s.job
	who := process{l.host, l.pid}
	if l.pid > 0 && size >= j.pids[who].size && len(j.pids) < maxFacts {
		j.pids[who] = place{rank, size}
	}
	j.world = max(j.world, size)
	if len(m[4]) == 0 { // releases that tell no commId print no START either
		return
	}
	key := initKey{string(m[4]), rank}
	done := string(m[5]) != "START"
	if done || len(j.inits) < maxFacts {
		if done {
			delete(j.inits, key)
		} else {
			j.inits[key] = initState{process: who, at: l.spot()}
		}
	}
	s.noteBus(l, busKey{key.comm, l.host, string(m[3])}, rank)
}

// noteBus finds two ranks of one communicator on one GPU.
func (s *Scanner) noteBus(l *line, key busKey, rank int) {
	if key.bus == "" || key.host == "" {
		return
	}
	other, known := s.job.buses[key]
	switch {
	case !known && len(s.job.buses) < maxFacts:
		s.job.buses[key] = rank
	case known && other != rank && s.job.shared == nil:
		e := s.event(s.m.byKey["46"], l)
		e.class = Hint
		e.named = []int{min(other, rank), max(other, rank)}
		s.job.shared = e
	}
}

// noteVersion takes NCCL's own word. What torch adds to its errors is the
// version that torch was built with.
func (s *Scanner) noteVersion(l *line) {
	m := versionLine().FindSubmatch(l.raw)
	if m == nil {
		return
	}
	s.job.nccl.version = string(m[1])
	if l.host != "" && len(s.job.nccl.versions) < maxKnown {
		s.job.nccl.versions[l.host] = s.job.nccl.version
	}
}

// differing says which hosts loaded which version of NCCL, "" if all that told
// it loaded the same.
func (j *job) differing() string {
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

func (s *Scanner) noteWorld(l *line) {
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
