package wrap

import (
	"errors"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/term"
)

// errFetched is the error of an image that a probe would have to download.
var errFetched = errors.New("its image would have to be fetched first")

// parseSSH reads ssh with a command. A probe asks for no password and forwards
// nothing.
func parseSSH(argv []string) (layer, error) {
	g := grammar{
		flags: "46AaCgKkMnqsTtvXxYy", values: "BbcDEeFIiJLlmopPRSw",
		drop: "-t -n -L -R -D -M -X -Y -g", refuse: "-f -N -W -G -V -Q -O -s",
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
	if len(rest) == 0 {
		return layer{}, errMissing
	}
	head := join(argv[:1], []string{"-o", "BatchMode=yes", "-o", "ConnectTimeout=10"}, g.words(opts), g.words(more), []string{"--"}, host)
	l := layer{
		name: "ssh", slow: true,
		around: func(probe []string) []string { return append(slices.Clone(head), term.Command(probe...)) },
		fix: func(names []string) string {
			return "start gorun on the remote host, or let its sshd take the variables (AcceptEnv in sshd_config) and send them:\n  ssh -o SendEnv='" +
				strings.Join(names, " ") + "' ..."
		},
	}
	l.read(strings.Join(rest, " "))
	return l, nil
}

// parseSrun reads srun. A probe runs one task of the allocation in which gorun
// runs; outside of an allocation it would queue.
func parseSrun(argv []string) (layer, error) {
	g := grammar{
		flags: "EHIkKlOsuvQXZ", values: "ABcCdDeGiJLmMnNopqrStTwWx",
		long: "preserve-env hold label overcommit share oversubscribe overlap exact unbuffered verbose quiet disable-status exclusive immediate contiguous " +
			"kill-on-bad-exit wait-all-nodes no-kill mpi-combine nodelist-as-is interactive pty spread-job use-min-nodes",
		valued: "account bb bbf bcast begin cluster-constraint clusters comment chdir container container-id cores-per-socket cpu-bind cpu-freq cpus-per-gpu cpus-per-task " +
			"dependency deadline distribution epilog error export extra-node-info gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags " +
			"hint input job-name jobid kill licenses mcs-label mem mem-bind mem-per-cpu mem-per-gpu mpi msg-timeout network nice nodefile nodelist nodes ntasks " +
			"ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket ntasks-per-tres open-mode output partition power priority profile prolog prefer propagate " +
			"qos reboot relative reservation signal slurmd-debug sockets-per-node task-epilog task-prolog thread-spec threads threads-per-core time time-min tmp " +
			"tres-per-task tres-bind uid gid wait wckey constraint exclude container-image container-mounts container-workdir container-name container-env",
		drop: "-o --output -e --error -i --input -l --label --pty -n --ntasks -N --nodes -d --dependency -b --begin --bcast --epilog --prolog --container-name " +
			"--ntasks-per-node --ntasks-per-socket --ntasks-per-core --ntasks-per-gpu --gpus-per-task",
		refuse: "--multi-prog --no-allocate -Z --test-only --help -H --hold --reboot",
	}
	opts, rest, err := g.scan(argv[1:])
	if err != nil {
		return layer{}, err
	}
	if len(rest) == 0 {
		return layer{}, errMissing
	}
	if slices.Contains(rest, ":") {
		return layer{}, errUnread
	}
	exports := given(opts, "--export")
	var meant []string
	for _, e := range exports {
		meant = append(meant, assignments(strings.Split(e, ","))...)
	}
	head := join(argv[:1], g.words(opts), []string{"--ntasks=1", "--nodes=1"})
	return layer{
		name: "srun", slow: true, needs: "SLURM_JOB_ID", program: rest, meant: meant,
		around: func(probe []string) []string { return join(head, probe) },
		fix: func([]string) string {
			return "have srun pass on all variables, in the place of another --export and whatever SLURM_EXPORT_ENV says:\n  srun --export=ALL ..."
		},
	}, nil
}

// parseMPI reads mpirun for one process, because the output of several processes
// would mix.
func parseMPI(argv []string) (layer, error) {
	g := grammar{
		single: true, long: "allow-run-as-root oversubscribe genvall envall q quiet",
		valued: "n np c x host H bind-to map-by wdir wd prefix genvlist envlist",
	}
	var opts []option
	args := argv[1:]
	for len(args) > 2 && strings.TrimLeft(args[0], "-") == "mca" { // the option with two values
		opts, args = append(opts, option{"-mca", args[1], args[:3:3]}), args[3:]
	}
	more, rest, err := g.scan(args)
	if err != nil {
		return layer{}, err
	}
	opts = append(opts, more...)
	if count := given(opts, "-n", "-np", "--np", "-c", "--n"); len(count) != 1 || count[0] != "1" || slices.Contains(rest, ":") {
		return layer{}, errors.New("only with -n 1 it can be looked behind it")
	}
	if len(rest) == 0 {
		return layer{}, errMissing
	}
	asked := given(opts, "-x")
	head := join(argv[:1], g.words(opts))
	return layer{
		name: base(argv[0]), slow: true, program: rest, meant: assignments(asked),
		passes: func(name string) bool { return slices.Contains(asked, name) },
		around: func(probe []string) []string { return join(head, probe) },
		fix: func(names []string) string {
			return "pass them on:\n  " + base(argv[0]) + " -x " + strings.Join(names, " -x ") + " ..."
		},
	}, nil
}
