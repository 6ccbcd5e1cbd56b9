package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Generation says which torchrun has a flag.
type Generation int

// The generations differ in the beginnings of names that are unambiguous: what starts
// under an old torchrun must start here, too.
const (
	GorunsOwn     Generation = iota // no torchrun has the flag
	NewTorchrun                     // torchrun got the flag after 1.13
	FirstTorchrun                   // torchrun 1.13 has the flag
)

// GenerationOf returns which torchrun has the flag.
func GenerationOf(flag string) Generation {
	switch strings.ReplaceAll(flag, "-", "_") {
	case "log_dir", "master_addr", "master_port", "max_restarts", "module", "monitor_interval", "nnodes",
		"no_python", "node_rank", "nproc_per_node", "rdzv_backend", "rdzv_conf", "rdzv_endpoint", "rdzv_id",
		"redirects", "role", "run_path", "standalone", "start_method", "tee":
		return FirstTorchrun
	case "duplicate_stderr_filters", "duplicate_stdout_filters", "event_log_handler", "local_addr",
		"local_ranks_filter", "log_line_prefix_template", "logs_specs", "numa_binding", "print_completion",
		"shutdown_timeout", "signals_to_handle", "virtual_local_rank":
		return NewTorchrun
	}
	return GorunsOwn
}

// petVariable returns torchrun's variable for a flag's default, or "" for none. torchrun
// itself reads no PET_NUMA_BINDING.
func petVariable(flag string) string {
	switch flag = strings.ReplaceAll(flag, "-", "_"); {
	case GenerationOf(flag) == GorunsOwn, flag == "logs_specs", flag == "print_completion":
		return ""
	}
	return petPrefix + strings.ToUpper(flag)
}

// petPrefix begins the names of torchrun's variables.
const petPrefix = "PET_"

// Console says which lines of the workers reach the terminal, and how they look.
type Console struct {
	// LinePrefix is the template of what stands before a line of --tee, with
	// ${role_name}, ${rank}, ${local_rank} and ${hostname}; "": torchrun's default.
	LinePrefix string
	// LocalRanks lists the local ranks whose output reaches the terminal; nil: all.
	// Files get the output of every rank.
	LocalRanks []int
}

// Filters lists texts. A line of a stream that contains one of the stream's texts is
// also written to filtered_stdout.log or filtered_stderr.log of the attempt.
type Filters struct{ Stdout, Stderr []string }

// EventHandler says where the events of a job go.
type EventHandler string

// The values of --event-log-handler. "dynamic_rendezvous" of torchrun writes nothing
// either, and is NoEvents here.
const (
	NoEvents      EventHandler = "null"
	ConsoleEvents EventHandler = "console"
)

// SignalsVariable is torchrun's other variable of --signals-to-handle. Workers inherit it.
const SignalsVariable = "TORCHELASTIC_SIGNALS_TO_HANDLE"

// SignalNames returns which signals end the job, as the user or torchrun names them.
func (r Raw) SignalNames(lookup Lookup) string {
	return (&input{raw: r, lookup: lookup}).signalNames().text
}

// defaultSignals are torchrun's signals that end a job.
const defaultSignals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"

// maxFilters bounds the texts of a stream, and the local ranks of a filter.
const maxFilters = 1024

// torchruns reads the flags that only exist because torchrun has them.
func (in *input) torchruns(s *Spec) {
	in.monitorInterval(s)
	in.startMethod(s)
	in.console(s)
	in.events(s)
	in.signals(s)
	if v := in.text("logs_specs", "default"); v.text != "default" {
		in.fail("cannot use %s %s: Could not find entrypoint under 'torchrun.logs_specs[%s]' key; gorun has no plugins and only \"default\"", v.from, v.text, v.text)
	}
}

// monitorInterval checks torchrun's interval between two looks at the workers. gorun
// learns of a worker's end from the kernel.
func (in *input) monitorInterval(s *Spec) {
	v := in.get("monitor_interval")
	if !v.given {
		return
	}
	if n, err := strconv.ParseFloat(strings.TrimSpace(v.text), 64); err != nil {
		in.failType(v, "float")
	} else if !(n > 0) {
		in.fail("%s is %s: it must be above 0", v.from, v.text)
	}
	if v.env {
		s.note("%s=%s has no effect: gorun sees the end of a worker at once", v.from, v.text)
	}
}

// startMethod checks how torchrun starts the workers of --run-path. Each worker of gorun
// is a new process, which is what spawn means.
func (in *input) startMethod(s *Spec) {
	s.RunPath = in.isOn("run_path")
	v := in.get("start_method")
	methods := []string{"spawn", "fork", "forkserver"}
	switch {
	case !v.given:
	case !slices.Contains(methods, v.text) && (s.RunPath || !v.env): // argparse checks no defaults
		in.failChoice(v, methods...)
	case v.text != "spawn" && s.RunPath || v.env:
		s.note("%s %s has no effect: gorun starts each worker as a new process, as spawn does", v.from, v.text)
	}
}

// console reads what the terminal shows of the workers' output.
func (in *input) console(s *Spec) {
	v := in.text("log_line_prefix_template", "")
	if !v.given {
		v.text, _ = in.lookup("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE")
	}
	s.Console.LinePrefix = v.text
	if v := in.text("local_ranks_filter", ""); v.given {
		for word := range strings.SplitSeq(v.text, ",") {
			n, err := parseInt(word)
			if err != nil {
				in.fail("cannot use %s %q: %s must be a comma-separated list of integers e.g. --local-ranks-filter=0,1,2", v.from, v.text, v.argument())
				break
			}
			s.Console.LocalRanks = append(s.Console.LocalRanks, n)
		}
		if len(s.Console.LocalRanks) > maxFilters {
			in.fail("cannot use %s: it lists %d ranks, at most %d are allowed", v.from, len(s.Console.LocalRanks), maxFilters)
		}
	}
	s.Filters.Stdout = in.filters("duplicate_stdout_filters")
	s.Filters.Stderr = in.filters("duplicate_stderr_filters")
}

// filters reads a list of texts with commas between them. Two commas are a comma of a
// text.
func (in *input) filters(name string) []string {
	v := in.text(name, "")
	const comma = "\x00" // no argument of a program holds it
	var texts []string
	for text := range strings.SplitSeq(strings.ReplaceAll(v.text, ",,", comma), ",") {
		if text != "" {
			texts = append(texts, strings.ReplaceAll(text, comma, ","))
		}
	}
	if len(texts) > maxFilters {
		in.fail("cannot use %s: it lists %d texts, at most %d are allowed", v.from, len(texts), maxFilters)
	}
	return texts
}

// events reads where the events of the job go.
func (in *input) events(s *Spec) {
	v := in.text("event_log_handler", string(NoEvents))
	switch s.Events = EventHandler(v.text); v.text {
	case string(NoEvents), string(ConsoleEvents):
	case "dynamic_rendezvous":
		s.Events = NoEvents
	default:
		in.fail("cannot use %s %q: the event log handlers are null and console", v.from, v.text)
	}
}

// TorchBackend returns torchrun's name for how the nodes meet.
func (s *Spec) TorchBackend() string {
	switch {
	case s.Backend == Gossip, s.Backend == Standalone && s.StoreOwner == RankZero:
		return "c10d"
	case s.Backend == Standalone:
		return string(Static)
	}
	return string(s.Backend)
}

// Signals returns the signals that end the job.
func (r Raw) Signals(lookup Lookup) []syscall.Signal {
	var s Spec
	(&input{raw: r, lookup: lookup}).signals(&s)
	return s.Signals
}

func (in *input) signalNames() value {
	v := in.text("signals_to_handle", "")
	if !v.given {
		v.from = SignalsVariable
		v.text, v.given = in.lookup(v.from)
	}
	if v.text == "" {
		v.text = defaultSignals
	}
	return v
}

// signals reads which signals end the job. As under torchrun a name that is no signal
// gets a line, and the other names count.
func (in *input) signals(s *Spec) {
	v := in.signalNames()
	for word := range strings.SplitSeq(v.text, ",") {
		word = strings.TrimSpace(word)
		sig := unix.SignalNum(word)
		switch {
		case word == "":
		case !canEndJob(sig):
			s.note("%s: Failed to register signal handler for %s: gorun can handle no signal of that name", v.from, word)
		case !slices.Contains(s.Signals, sig):
			s.Signals = append(s.Signals, sig)
		}
	}
}

// canEndJob reports whether a program can handle the signal, and the kernel does not send
// it to gorun for reasons of its own. sig is 0 for a name that is no signal.
func canEndJob(sig syscall.Signal) bool {
	switch sig {
	case 0, unix.SIGKILL, unix.SIGSTOP, unix.SIGCHLD, unix.SIGURG, unix.SIGPIPE, unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGPROF:
		return false
	}
	return true
}

// argument returns how argparse names the flag in its errors.
func (v value) argument() string {
	name, ok := strings.CutPrefix(v.from, "--")
	if !ok {
		for _, prefix := range []string{VariablePrefix, petPrefix} {
			name = strings.TrimPrefix(name, prefix)
		}
		name = strings.ToLower(name)
	}
	dashes, underscores := "--"+strings.ReplaceAll(name, "_", "-"), "--"+strings.ReplaceAll(name, "-", "_")
	if dashes == underscores {
		return dashes
	}
	return dashes + "/" + underscores
}

// failChoice is argparse's error for a value that is none of the choices.
func (in *input) failChoice(v value, choices ...string) {
	from := ""
	if v.env {
		from = fmt.Sprintf(" (from %s)", v.from)
	}
	in.fail("error: argument %s: invalid choice: '%s' (choose from '%s')%s", v.argument(), v.text, strings.Join(choices, "', '"), from)
}

// failType is argparse's error for a value of another type.
func (in *input) failType(v value, kind string) {
	from := ""
	if v.env {
		from = fmt.Sprintf(" (from %s)", v.from)
	}
	in.fail("error: argument %s: invalid %s value: '%s'%s", v.argument(), kind, v.text, from)
}

// noteVariables notes torchrun's variables that are set and have no effect, so that no
// mistyped name is ignored in silence.
func (in *input) noteVariables(s *Spec, names []string) {
	for _, name := range slices.Sorted(slices.Values(names)) {
		flag, isPet := strings.CutPrefix(name, petPrefix)
		if !isPet {
			continue
		}
		flag = strings.ToLower(flag)
		switch {
		case petVariable(flag) == name:
		case GenerationOf(flag) != GorunsOwn:
			s.note("%s has no effect, as under torchrun: give --%s", name, strings.ReplaceAll(flag, "_", "-"))
		default:
			s.note("%s has no effect: torchrun has no flag --%s", name, strings.ReplaceAll(flag, "_", "-"))
		}
	}
}
