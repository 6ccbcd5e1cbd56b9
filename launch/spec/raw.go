package spec

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gorun/gorun/launch/spec/surroundings"
)

// Raw is a command line before it is resolved.
type Raw struct {
	// Flags holds the text of each given flag, by torchrun's name of the variable
	// ("nproc_per_node"). A switch is "1" or "0".
	Flags map[string]string
	// Lists holds the texts of the flags that may be given several times.
	Lists map[string][]string
	// Command is the program and its arguments.
	Command []string
	// Check means gorun check: the nodes are only compared, so a program may be
	// missing.
	Check bool
	// Launch means gorun launch: unless --use-env is given each worker gets its local
	// rank as an argument, too.
	Launch bool
	// SelfTest means gorun selftest: without --nproc-per-node each GPU, or else each CPU,
	// gets a worker.
	SelfTest bool
	// Show means gorun env: gorun only shows what each rank would get.
	Show bool
	// Surroundings finds what started this process on several nodes; nil: nothing did.
	Surroundings func(surroundings.Lookup) (surroundings.Surroundings, error)
	// Environ lists the names of the environment's variables, to find torchrun's that
	// have no effect.
	Environ []string
	// Line holds the words after gorun as the user wrote them, for messages.
	Line []string
}

// Lookup reads one environment variable, like os.LookupEnv.
type Lookup func(name string) (value string, ok bool)

// input reads flags and their PET_ variables and remembers the first error.
type input struct {
	raw    Raw
	lookup Lookup
	found  surroundings.Surroundings
	around map[string]surroundings.Value // what found says and no flag or variable contradicts
	err    error
}

// value is the text of one flag, its source, and whether it was given.
type value struct {
	text  string
	from  string // "--nnodes" or "PET_NNODES", for messages
	given bool
	env   bool // the source is the environment, not the command line
}

// get finds a flag: the command line wins over GORUN_<NAME>, that over PET_<NAME>,
// and that over the surroundings.
func (in *input) get(name string) value {
	v := in.fromUser(name)
	if a, ok := in.around[name]; ok && !v.given {
		return value{text: a.Text, from: a.From, given: true, env: true}
	}
	return v
}

// fromUser finds what the user asks for by a flag or its variables.
func (in *input) fromUser(name string) value {
	flag := "--" + strings.ReplaceAll(name, "_", "-")
	if text, ok := in.raw.Flags[name]; ok {
		return value{text: text, from: flag, given: true}
	}
	for _, variable := range VariablesOf(name) {
		if text, ok := in.lookup(variable); ok && !in.isNested(variable) {
			return value{text: text, from: variable, given: true, env: true}
		}
	}
	return value{from: flag}
}

// VariablesOf lists the variables that give a flag's default. The flags of gorun env
// that choose a running job have none: GORUN_RUN_ID is a variable of each worker.
// --print-completion is read before all others.
func VariablesOf(name string) []string {
	switch name = strings.ReplaceAll(name, "-", "_"); {
	case name == "run_id" || name == "pid" || name == "print_completion":
		return nil
	case petVariable(name) != "":
		return []string{Variable(name), petVariable(name)}
	}
	return []string{Variable(name)}
}

// VariablePrefix begins the names of the variables that give flags' defaults.
const VariablePrefix = "GORUN_"

// Variable returns the variable of a flag: GORUN_NNODES of nnodes.
func Variable(flag string) string {
	return VariablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// isNested reports whether a variable is meant for the gorun that started this
// process as a worker. A worker that starts gorun must not start nodes again.
func (in *input) isNested(variable string) bool {
	return strings.HasPrefix(variable, VariablePrefix) && surroundings.IsNested(surroundings.Lookup(in.lookup))
}

// list returns the values of a flag that may be given several times. GORUN_<NAME>
// has them separated by spaces.
func (in *input) list(name string) []string {
	if texts, ok := in.raw.Lists[name]; ok {
		return texts
	}
	if v := in.fromUser(name); v.given {
		return strings.Fields(v.text)
	}
	return nil
}

// text returns a flag for which an empty value means the same as no value.
func (in *input) text(name, unset string) value {
	v := in.get(name)
	if v.given = v.given && v.text != ""; !v.given {
		v.text = unset
	}
	return v
}

// file returns the name of a file that gorun writes, or "" for none.
func (in *input) file(name string) string {
	v := in.get(name)
	if v.given && v.text == "" { // probably from a shell variable that is not set
		in.fail("cannot use %s without a file", v.from)
	}
	return v.text
}

// number returns a whole number of at least min.
func (in *input) number(name string, unset, min int) (int, value) {
	v := in.get(name)
	if !v.given {
		return unset, v
	}
	n, err := parseInt(v.text)
	if err != nil {
		in.failType(v, "int")
	} else if n < min {
		in.fail("%s is %d: it must be at least %d", v.from, n, min)
	}
	return n, v
}

// isOn reports whether a switch is on. torchrun reads the variables of switches with
// int(): 0 is off, any other number is on, text is an error. GORUN_<NAME> may be true
// or false, too, as in the files of containers.
func (in *input) isOn(name string) bool {
	v := in.get(name)
	if !v.given {
		return false
	}
	if v.from == Variable(name) && (v.text == "true" || v.text == "false") {
		return v.text == "true"
	}
	n, err := parseInt(v.text)
	if err != nil {
		in.fail("%s is %q: it must be 0 (off) or 1 (on)", v.from, v.text)
	}
	return n != 0
}

func (in *input) fail(format string, args ...any) {
	if in.err == nil {
		in.err = fmt.Errorf(format, args...)
	}
}

func (in *input) check(err error) {
	if in.err == nil {
		in.err = err
	}
}

// parseInt reads a decimal number as Python's int() does: spaces may surround it.
func parseInt(s string) (int, error) { return strconv.Atoi(strings.TrimSpace(s)) }
