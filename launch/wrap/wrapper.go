package wrap

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/term"
)

// errUnread is the error of a wrapper with a command line that gorun does not read.
var errUnread = errors.New("its command line is not understood here")

// parser returns the function that reads the command line of a program, or nil if
// the program is not known here.
func parser(program string) func(argv []string) (layer, error) {
	switch name := filepath.Base(program); name {
	case "docker", "podman":
		return parseContainer
	case "ssh":
		return parseSSH
	case "sudo":
		return parseSudo
	case "srun":
		return parseSrun
	case "env":
		return parseEnv
	case "sh", "bash", "dash", "ash", "zsh", "ksh":
		return parseShell
	case "ionice", "nice", "nohup", "numactl", "setsid", "stdbuf", "taskset", "timeout":
		return parseLossless
	}
	return nil
}

// isLossy reports whether a wrapper with this name may lose variables, whatever its
// options are.
func isLossy(name string) bool {
	return slices.Contains([]string{"docker", "podman", "ssh", "sudo", "srun"}, name)
}

// parseLossless reads programs that pass everything on, and behind which a wrapper
// may stand.
func parseLossless(argv []string) (layer, error) {
	name, g, own := filepath.Base(argv[0]), grammar{}, 0 // own: words between the options and the program
	switch name {
	case "ionice":
		g = grammar{values: "-c -n --class --classdata", refuse: "-p -P -u --pid --pgid --uid"}
	case "nice":
		g.values = "-n --adjustment"
	case "numactl":
		g.values = "-i -N -C -m -p -P -w --interleave --cpunodebind --physcpubind --membind --preferred --preferred-many --weighted-interleave"
	case "setsid":
		g = grammar{refuse: "-f --fork", drop: "-c --ctty"}
	case "stdbuf":
		g.values = "-i -o -e --input --output --error"
	case "taskset":
		g.refuse, own = "-p --pid", 1
	case "timeout":
		g.values, own = "-k -s --kill-after --signal", 1
	}
	opts, rest, err := g.scan(argv[1:])
	if err != nil {
		return layer{}, err
	}
	if len(rest) <= own {
		return layer{}, errMissing
	}
	return layer{
		name: name, lossless: true, program: rest[own:],
		replace: before(argv[:1], g.words(opts), rest[:own]),
	}, nil
}

// before returns a function that puts words before a program.
func before(words ...[]string) func(program []string) []string {
	head := slices.Concat(words...)
	return func(program []string) []string { return slices.Concat(head, program) }
}

// parseEnv reads env. What env sets or removes by name is the user's own choice.
func parseEnv(argv []string) (layer, error) {
	g := grammar{values: "-u -C -a --unset --chdir --argv0", refuse: "-S --split-string -0 --null"}
	opts, rest, err := g.scan(argv[1:])
	if err == nil && rest[0] == "-" {
		var more []option
		more, rest, err = g.scan(slices.Concat([]string{"-i"}, rest[1:]))
		opts = append(opts, more...)
	}
	if err != nil {
		return layer{}, err
	}
	i := slices.IndexFunc(rest, func(word string) bool { return !isAssignment(word) })
	if i < 0 {
		return layer{}, errMissing
	}
	settings, program := rest[:i], rest[i:]
	isEmpty := has(opts, "-i", "--ignore-environment")
	l := layer{
		name: "env", lossless: !isEmpty, program: program, assigned: slices.Concat(settings, valuesOf(opts, "-u", "--unset")),
		replace: before(argv[:1], g.words(opts), settings),
	}
	if isEmpty {
		l.name, l.certain = "env -i", true
		l.passes = func(string) bool { return false }
		l.fix = func([]string) string {
			return "leave out env's -i; env -u NAME takes away a single variable that the program must not see"
		}
	}
	return l, nil
}

// parseSudo reads sudo. A probe never asks for a password.
func parseSudo(argv []string) (layer, error) {
	g := grammar{
		values: "-a -C -c -D -g -h -p -R -r -T -t -U -u --auth-type --close-from --login-class --chdir --group --host --prompt --chroot --role " +
			"--command-timeout --type --other-user --user",
		refuse:   "-b --background -e --edit -K --remove-timestamp -l --list -v --validate -V --version --help",
		drop:     "-n -k -A -S --non-interactive --reset-timestamp --askpass --stdin",
		assigned: true,
	}
	opts, rest, err := g.scan(argv[1:])
	if err != nil {
		return layer{}, err
	}
	preserved := strings.Split(strings.Join(valuesOf(opts, "--preserve-env"), ","), ",")
	all := has(opts, "-E") || slices.ContainsFunc(opts, func(o option) bool { return o.name == "--preserve-env" && o.value == "" })
	return layer{
		name: "sudo", program: rest, assigned: valuesOf(opts, "="),
		passes:  func(name string) bool { return all || slices.Contains(preserved, name) },
		replace: before(argv[:1], []string{"-n"}, g.words(opts)),
		fix: func(names []string) string {
			return "give sudo the names of the variables (sudoers must allow it: SETENV, or env_keep):\n  sudo --preserve-env=" + strings.Join(names, ",") + " ..."
		},
	}, nil
}

// parseSSH reads ssh with a command. A probe asks for no password and forwards
// nothing.
func parseSSH(argv []string) (layer, error) {
	g := grammar{
		values: "-B -b -c -D -E -e -F -I -i -J -L -l -m -o -p -P -R -S -w",
		drop:   "-t -n -L -R -D -M -X -Y -g", refuse: "-f -N -W -G -V -Q -O -s",
	}
	opts, rest, err := g.scan(argv[1:])
	if err != nil {
		return layer{}, err
	}
	if len(rest) < 2 {
		return layer{}, errMissing
	}
	host := rest[:1:1]
	more, rest, err := g.scan(rest[1:]) // options may also stand behind the host
	if err != nil {
		return layer{}, err
	}
	var sent []string
	for _, o := range valuesOf(append(opts, more...), "-o") {
		if words := strings.FieldsFunc(o, func(r rune) bool { return r == '=' || r == ' ' }); len(words) > 0 && strings.EqualFold(words[0], "SendEnv") {
			sent = append(sent, words[1:]...)
		}
	}
	head := before(argv[:1], []string{"-o", "BatchMode=yes", "-o", "ConnectTimeout=10"}, g.words(opts), g.words(more), []string{"--"}, host)
	l := layer{
		name: "ssh", elsewhere: true,
		passes:  func(name string) bool { return matchesAny(sent, name) },
		replace: func(program []string) []string { return head([]string{term.Command(program...)}) },
		fix: func(names []string) string {
			return "start gorun on the remote host, or let its sshd take the variables (AcceptEnv in sshd_config) and send them:\n  ssh -o SendEnv='" +
				strings.Join(names, " ") + "' ..."
		},
	}
	l.readText(strings.Join(rest, " "))
	return l, nil
}

// parseSrun reads srun. A probe runs one task of the allocation in which gorun
// runs; outside of an allocation it would queue.
func parseSrun(argv []string) (layer, error) {
	g := grammar{
		values: "-A -B -C -c -d -D -e -G -i -J -L -m -M -n -N -o -p -q -r -S -t -T -w -W -x " +
			"--account --bb --bbf --bcast --begin --cluster-constraint --clusters --comment --chdir --constraint --container --container-env --container-id " +
			"--container-image --container-mounts --container-name --container-workdir --core-spec --cores-per-socket --cpu-bind --cpu-freq --cpus-per-gpu " +
			"--cpus-per-task --deadline --dependency --distribution --epilog --error --exclude --export --extra-node-info --gid --gpu-bind --gpu-freq --gpus " +
			"--gpus-per-node --gpus-per-socket --gpus-per-task --gres --gres-flags --hint --input --job-name --jobid --licenses --mcs-label --mem --mem-bind " +
			"--mem-per-cpu --mem-per-gpu --mpi --msg-timeout --network --nodefile --nodelist --nodes --ntasks --ntasks-per-core --ntasks-per-gpu " +
			"--ntasks-per-node --ntasks-per-socket --open-mode --output --partition --power --prefer --priority --profile --prolog --qos --relative " +
			"--reservation --signal --slurmd-debug --sockets-per-node --task-epilog --task-prolog --thread-spec --threads --threads-per-core --time --time-min " +
			"--tmp --tres-bind --tres-per-task --uid --wait --wckey",
		drop: "-o --output -e --error -i --input -l --label --pty -n --ntasks -N --nodes -d --dependency -b --begin --bcast --epilog --prolog --container-name " +
			"--ntasks-per-node --ntasks-per-socket --ntasks-per-core --ntasks-per-gpu --gpus-per-task",
		refuse: "--multi-prog --no-allocate -Z --test-only --help -H --hold --reboot",
	}
	opts, rest, err := g.scan(argv[1:])
	if err != nil {
		return layer{}, err
	}
	if slices.Contains(rest, ":") {
		return layer{}, errUnread
	}
	exports := strings.Split(strings.Join(valuesOf(opts, "--export"), ","), ",")
	return layer{
		name: "srun", elsewhere: true, requires: "SLURM_JOB_ID", program: rest, assigned: assignments(exports),
		passes: func(name string) bool {
			return !has(opts, "--export") || slices.Contains(exports, "ALL") || slices.Contains(exports, name)
		},
		replace: before(argv[:1], g.words(opts), []string{"--ntasks=1", "--nodes=1"}),
		fix: func([]string) string {
			return "have srun pass on all variables, in the place of another --export and whatever SLURM_EXPORT_ENV says:\n  srun --export=ALL ..."
		},
	}, nil
}

// parseShell reads a shell that gets a text, or a login shell with a script. Any
// other script is the program itself; parseShell then returns a layer without a
// name. An interactive shell counts as a login shell, because it reads start files.
func parseShell(argv []string) (layer, error) {
	g := grammar{values: "-o -O --rcfile --init-file", drop: "-c -s"}
	opts, rest, err := g.scan(argv[1:])
	login, hasText := has(opts, "-l", "--login", "-i"), has(opts, "-c")
	if err != nil || !hasText && !login {
		return layer{}, nil
	}
	head := before(argv[:1], g.words(opts), []string{"-c"})
	name := filepath.Base(argv[0])
	l := layer{
		name: name, lossless: !login, login: login,
		replace: func(program []string) []string { return head([]string{term.Command(program...)}) },
	}
	if login {
		l.name += " -l"
		l.fix = func([]string) string {
			return "see what its start files (/etc/profile, /etc/profile.d, ~/.bash_profile, ~/.profile, ~/.bashrc) set, or start " + name + " without -l"
		}
	}
	if hasText {
		l.readText(rest[0])
	} else {
		l.program = rest
	}
	return l, nil
}

// readText reads a shell's text. One plain command is a command line, which may
// contain other wrappers.
func (l *layer) readText(text string) {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=@%+ "
	words := strings.Fields(text)
	if len(words) > 1 && words[0] == "exec" {
		words = words[1:]
	}
	if strings.Trim(text, safe) == "" && len(words) > 0 && !isAssignment(words[0]) && strings.Trim(words[0], "-") == words[0] && !isBuiltin(words[0]) {
		l.program = words
		return
	}
	l.text = text
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(" \t\n;&|(){}`\"'", r) }) {
		if name, _, ok := strings.Cut(word, "="); ok && isName(name) {
			l.assigned = append(l.assigned, name)
		}
	}
}

// isBuiltin reports whether a word is a shell's own command, after which no program
// follows.
func isBuiltin(word string) bool {
	return slices.Contains([]string{"cd", "export", "set", "unset", "source", ".", "if", "for", "while", "case", "eval", "ulimit", "umask", "command"}, word)
}
