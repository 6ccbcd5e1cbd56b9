package wrap

import (
	"path"
	"slices"
	"strings"
)

// engine returns the grammar of the options that stand before the command of
// docker, podman or nerdctl.
func engine() grammar {
	return grammar{
		flags: "Dr", values: "cHlan", long: "debug tls tlsverify remote debug-full experimental insecure-registry syslog",
		valued: "config context host log-level tlscacert tlscert tlskey cgroup-manager conmon connection events-backend hooks-dir identity module namespace " +
			"network-cmd-path network-config-dir out root runroot runtime runtime-flag ssh storage-driver storage-opt tmpdir url volumepath " +
			"address snapshotter cni-path cni-netconfpath data-root hosts-dir",
		refuse: "-v --version --help -h",
	}
}

// create returns the grammar of the options of run. A probe leaves out options
// whose effects would collide with the worker's own container, or would last.
func create() grammar {
	return grammar{
		flags: "ditPq", values: "acehlmpuvw",
		long: "detach init interactive tty rm privileged read-only no-healthcheck oom-kill-disable publish-all sig-proxy disable-content-trust quiet use-api-socket " +
			"replace rmi no-hosts no-hostname env-host http-proxy tls-verify passwd read-only-tmpfs rootfs",
		valued: "add-host annotation attach blkio-weight blkio-weight-device cap-add cap-drop cgroup-parent cgroupns cgroup-conf cgroups cidfile conmon-pidfile " +
			"cpu-count cpu-percent cpu-period cpu-quota cpu-rt-period cpu-rt-runtime cpu-shares cpus cpuset-cpus cpuset-mems detach-keys device " +
			"device-cgroup-rule device-read-bps device-read-iops device-write-bps device-write-iops dns dns-opt dns-option dns-search domainname entrypoint " +
			"env env-file env-merge expose gidmap gpus group-add group-entry health-cmd health-interval health-on-failure health-retries " +
			"health-start-interval health-start-period health-timeout hostname hostuser image-volume init-path io-maxbandwidth io-maxiops ip ip6 ipc isolation " +
			"kernel-memory label label-file link link-local-ip log-driver log-opt mac-address memory memory-reservation memory-swap memory-swappiness " +
			"mount name net net-alias network network-alias oom-score-adj os arch variant passwd-entry personality pid pidfile pids-limit platform pod pod-id-file " +
			"publish pull rdt-class requires restart retry retry-delay runtime sdnotify seccomp-policy secret security-opt shm-size shm-size-systemd stop-signal " +
			"stop-timeout storage-opt subgidname subuidname sysctl systemd timeout tmpfs tz uidmap ulimit umask unsetenv unsetenv-all user userns uts volume volume-driver volumes-from workdir",
		drop: "-d --detach -i --interactive -t --tty --rm --name --cidfile --pidfile --conmon-pidfile --pod-id-file -p --publish -P --publish-all --restart " +
			"-a --attach --entrypoint --pull --replace --rmi --ip --ip6 --mac-address --sig-proxy -q --quiet --sdnotify",
		refuse: "--help",
	}
}

// parseContainer reads docker run and docker exec, and the same commands of podman
// and nerdctl. A probe leaves out the image's entry point, because nobody knows
// what it does with other arguments. A probe fetches no image that is missing here.
func parseContainer(argv []string) (layer, error) {
	global, rest, err := engine().scan(argv[1:])
	if err != nil {
		return layer{}, err
	}
	if len(rest) > 0 && rest[0] == "container" {
		rest = rest[1:]
	}
	head := append(argv[:1:1], engine().words(global)...)
	l := layer{name: base(argv[0]), slow: true}
	switch {
	case len(rest) > 0 && rest[0] == "run":
		err = l.run(head, rest[1:])
	case len(rest) > 0 && rest[0] == "exec":
		err = l.exec(head, rest[1:])
	default:
		err = errUnread
	}
	return l, err
}

// run reads the arguments of "run" into the layer: its program, and the command line that
// runs another program in such a container. It starts nothing. head is the engine's
// command up to "run".
func (l *layer) run(head, args []string) error {
	g := create()
	opts, rest, err := g.scan(args)
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return errMissing
	}
	image, words := rest[:1], g.words(opts)
	l.name += " run"
	l.program = rest[1:]
	if entry := given(opts, "--entrypoint"); len(entry) > 0 && entry[len(entry)-1] != "" {
		l.program = join(entry[len(entry)-1:], l.program)
	}
	l.around = func(probe []string) []string {
		own := []string{"run", "--rm", "--pull=never", "--name=" + probeName, "--entrypoint=" + probe[0]}
		return join(head, own, words, image, probe[1:])
	}
	l.undo = join(head, []string{"rm", "-f", probeName})
	l.variables(opts)
	// Podman's configuration may pass all variables on.
	l.strict = base(head[0]) != "podman" && !has(opts, "--env-file", "--env-host")
	return nil
}

// exec reads the arguments of "exec" into the layer, as run does for "run".
func (l *layer) exec(head, args []string) error {
	g := grammar{
		flags: "ditl", values: "euw", long: "detach interactive tty privileged latest", valued: "env env-file user workdir detach-keys preserve-fds preserve-fd",
		drop: "-d --detach -i --interactive -t --tty", refuse: "--help",
	}
	opts, rest, err := g.scan(args)
	if err != nil {
		return err
	}
	if !has(opts, "-l", "--latest") {
		if len(rest) == 0 {
			return errMissing
		}
		head = join(head, []string{"exec"}, g.words(opts), rest[:1])
		rest = rest[1:]
	} else {
		head = join(head, []string{"exec"}, g.words(opts))
	}
	if len(rest) == 0 {
		return errMissing
	}
	l.name += " exec"
	l.program = rest
	l.around = func(probe []string) []string { return join(head, probe) }
	l.variables(opts)
	return nil
}

// variables reads -e NAME, which passes a variable on, and -e NAME=value.
func (l *layer) variables(opts []option) {
	asked := given(opts, "-e", "--env")
	l.meant = join(assignments(asked), given(opts, "--unsetenv"))
	l.passes = func(name string) bool {
		return has(opts, "--env-host") || slices.ContainsFunc(asked, func(a string) bool {
			ok, _ := path.Match(a, name)
			return ok && (a == name || strings.HasSuffix(a, "*"))
		})
	}
	wrapper := l.name
	l.fix = func(names []string) string {
		return "pass them on, or start gorun inside the container:\n  " + wrapper + " -e " + strings.Join(names, " -e ") + " ..."
	}
}

// parseApptainer reads apptainer exec and run. A probe leaves out the script of
// run.
func parseApptainer(argv []string) (layer, error) {
	global := grammar{flags: "dqsv", values: "c", long: "debug quiet silent verbose nocolor", valued: "config", refuse: "-h --help --version"}
	before, rest, err := global.scan(argv[1:])
	if err != nil {
		return layer{}, err
	}
	if len(rest) == 0 || rest[0] != "exec" && rest[0] != "run" {
		return layer{}, errUnread
	}
	g := grammar{
		flags: "ceCfinpuw", values: "BHSWo",
		long: "allow-setuid cleanenv compat contain containall disable-cache fakeroot ipc keep-privs net no-compat no-eval no-home no-init no-pid no-privs no-tmp-sandbox no-umask no-https nohttps nv nvccli pid rocm " +
			"sharens unsquash underlay userns uts writable writable-tmpfs",
		valued: "add-caps app apply-cgroups bind blkio-weight blkio-weight-device cpu-shares cpus cpuset-cpus cpuset-mems cwd device dns docker-host drop-caps env env-file " +
			"fusemount home hostname memory memory-reservation memory-swap mount network network-args no-mount oom-kill-disable overlay pem-path pids-limit pwd " +
			"scratch security workdir",
		refuse: "--pid-file --docker-login --passphrase --help -h",
	}
	opts, args, err := g.scan(rest[1:])
	switch {
	case err != nil:
		return layer{}, err
	case len(args) == 0, len(args) == 1 && rest[0] == "exec":
		return layer{}, errMissing
	case strings.Contains(args[0], "://") && !strings.HasPrefix(args[0], "instance://"):
		return layer{}, errFetched
	}
	var pairs []string
	for _, e := range given(opts, "--env") {
		pairs = append(pairs, strings.Split(e, ",")...)
	}
	head := join(argv[:1], global.words(before), []string{"exec"}, g.words(opts), args[:1])
	return layer{
		name: base(argv[0]) + " " + rest[0], slow: true, program: args[1:], meant: assignments(pairs),
		around: func(probe []string) []string { return join(head, probe) },
		fix: func([]string) string {
			if has(opts, "-e", "--cleanenv", "-C", "--containall", "--compat") {
				return "leave out " + base(argv[0]) + "'s --cleanenv, --containall and --compat"
			}
			return "see what the image's %environment sets, and what SINGULARITY_* and APPTAINER_* variables do"
		},
	}, nil
}

// parseConda reads conda run and micromamba run.
func parseConda(argv []string) (layer, error) {
	if len(argv) < 2 || argv[1] != "run" {
		return layer{}, errUnread
	}
	g := grammar{
		flags: "vq", values: "np", long: "no-capture-output live-stream dev debug-wrapper-scripts verbose clean-env", valued: "name prefix cwd",
		refuse: "-d --detach -a --attach -h --help",
	}
	opts, rest, err := g.scan(argv[2:])
	if err != nil {
		return layer{}, err
	}
	if len(rest) == 0 {
		return layer{}, errMissing
	}
	head := join(argv[:2], g.words(opts))
	return layer{
		name: base(argv[0]) + " run", slow: true, program: rest,
		around: func(probe []string) []string { return join(head, probe) },
		fix: func([]string) string {
			return "see what the environment sets (conda env config vars list, etc/conda/activate.d), or activate it before gorun is started"
		},
	}, nil
}
