package recorder

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/internal/environ"
	"golang.org/x/sys/unix"
)

// Names of the recorder's variables. The older one of two names comes second: torch 2.9
// and later warn of it.
var (
	sizeNames = names{"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"}
	dumpNames = names{"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}
	pipeNames = names{"TORCH_NCCL_DEBUG_INFO_PIPE_FILE"}
	// The heartbeat thread looks at the pipe once a second if this is on, else every
	// eight minutes.
	timeoutNames = names{"TORCH_NCCL_DUMP_ON_TIMEOUT"}
)

// names are the names of one variable, the newest first.
type names []string

// lookup returns the value that torch takes: that of the newest name that is set.
func (n names) lookup(env []string) (value string, ok bool) {
	for _, name := range n {
		if value, ok := environ.Lookup(env, name); ok {
			return value, true
		}
	}
	return "", false
}

// bufferSize is the number of calls that a recorder keeps: torch's own default since 2.10.
const bufferSize = "2000"

// Rule says why a worker has the variables.
const Rule = "PyTorch's flight recorder, for gorun status --collectives; see --flight-recorder"

// Folders says where recorders write: prefixes of paths, which torch completes by ranks.
type Folders struct {
	Pipes string // "": there is no place for pipes
	Dumps string // "": torch decides
}

// Variables returns the variables with which a torch of a version records its calls, without
// those that the environment of the workers has under any name. There are none if the
// version has no recorder or is unknown, or if the environment turns the recorder off.
func Variables(version string, at Folders, env []string) []envprop.Variable {
	major, minor, ok := parseVersion(version)
	if !ok || major < 2 || major == 2 && minor < 2 {
		return nil
	}
	if size, set := sizeNames.lookup(env); set {
		if n, err := strconv.Atoi(strings.TrimSpace(size)); err == nil && n <= 0 {
			return nil
		}
	}
	isOld := major == 2 && minor < 9
	var all []envprop.Variable
	add := func(n names, value string) {
		if _, set := n.lookup(env); set || value == "" {
			return
		}
		name := n[0]
		if isOld {
			name = n[len(n)-1]
		}
		all = append(all, envprop.Variable{Name: name, Value: value})
	}
	add(sizeNames, bufferSize)
	add(timeoutNames, "1")
	add(dumpNames, at.Dumps)
	add(pipeNames, at.Pipes)
	return all
}

// parseVersion reads the first two numbers of a version: "2.11.0+cu130".
func parseVersion(version string) (major, minor int, ok bool) {
	first, rest, ok := strings.Cut(version, ".")
	if !ok {
		return 0, 0, false
	}
	second := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	major, err := strconv.Atoi(first)
	if err != nil {
		return 0, 0, false
	}
	minor, err = strconv.Atoi(second)
	return major, minor, err == nil && major >= 0
}

// MakePipeFolder makes a folder in which ranks can make pipes, and tries it, because a rank
// that cannot make its pipe ends.
func MakePipeFolder(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	trial := filepath.Join(path, "trial")
	if err := unix.Mkfifo(trial, 0o600); err != nil {
		return &os.PathError{Op: "mkfifo", Path: trial, Err: err}
	}
	return os.Remove(trial)
}
