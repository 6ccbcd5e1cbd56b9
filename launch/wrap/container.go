package wrap

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// parseContainer reads run and exec of docker and podman.
func parseContainer(argv []string) (layer, error) {
	g := grammar{
		values: "-c -H -l --cgroup-manager --config --conmon --connection --context --events-backend --hooks-dir --host --identity --log-level --module " +
			"--namespace --network-cmd-path --network-config-dir --out --root --runroot --runtime --runtime-flag --ssh --storage-driver --storage-opt " +
			"--tlscacert --tlscert --tlskey --tmpdir --url --volumepath",
		refuse: "-v --version --help -h",
	}
	global, rest, err := g.scan(argv[1:])
	if err != nil {
		return layer{}, err
	}
	if rest[0] == "container" && len(rest) > 1 {
		rest = rest[1:]
	}
	head := slices.Concat(argv[:1], g.words(global))
	switch {
	case rest[0] == "run":
		return parseRun(head, rest[1:])
	case rest[0] == "exec":
		return parseExec(head, rest[1:])
	}
	return layer{}, errUnread
}

// parseRun reads the arguments of run; head is the command line up to it. A probe
// leaves out the image's entry point, which may do anything with other arguments,
// and the options whose effects would collide with the worker's own container, or
// would last. It fetches no image.
func parseRun(head, args []string) (layer, error) {
	g := grammar{
		values: "-a -c -e -h -l -m -p -u -v -w --add-host --annotation --arch --attach --blkio-weight --blkio-weight-device --cap-add --cap-drop " +
			"--cgroup-conf --cgroup-parent --cgroupns --cgroups --cidfile --conmon-pidfile --cpu-count --cpu-percent --cpu-period --cpu-quota --cpu-rt-period " +
			"--cpu-rt-runtime --cpu-shares --cpus --cpuset-cpus --cpuset-mems --detach-keys --device --device-cgroup-rule --device-read-bps --device-read-iops " +
			"--device-write-bps --device-write-iops --dns --dns-opt --dns-option --dns-search --domainname --entrypoint --env --env-file --env-merge --expose " +
			"--gidmap --gpus --group-add --group-entry --health-cmd --health-interval --health-on-failure --health-retries --health-start-interval " +
			"--health-start-period --health-timeout --hostname --hostuser --image-volume --init-path --io-maxbandwidth --io-maxiops --ip --ip6 --ipc --isolation " +
			"--kernel-memory --label --label-file --link --link-local-ip --log-driver --log-opt --mac-address --memory --memory-reservation --memory-swap " +
			"--memory-swappiness --mount --name --net --net-alias --network --network-alias --oom-score-adj --os --passwd-entry --personality --pid --pidfile " +
			"--pids-limit --platform --pod --pod-id-file --publish --pull --rdt-class --requires --restart --retry --retry-delay --runtime --sdnotify " +
			"--seccomp-policy --secret --security-opt --shm-size --shm-size-systemd --stop-signal --stop-timeout --storage-opt --subgidname --subuidname " +
			"--sysctl --systemd --timeout --tmpfs --tz --uidmap --ulimit --umask --unsetenv --unsetenv-all --user --userns --uts --variant --volume " +
			"--volume-driver --volumes-from --workdir",
		drop: "-d --detach -i --interactive -t --tty --rm --name --cidfile --pidfile --conmon-pidfile --pod-id-file -p --publish -P --publish-all --restart " +
			"-a --attach --entrypoint --pull --replace --rmi --ip --ip6 --mac-address --sig-proxy -q --quiet --sdnotify",
		refuse: "--help",
	}
	opts, rest, err := g.scan(args)
	if err != nil {
		return layer{}, err
	}
	image, words := rest[:1], g.words(opts)
	l := containerLayer(head[0], "run", opts)
	l.program = rest[1:]
	if entry := valuesOf(opts, "--entrypoint"); len(entry) > 0 && entry[len(entry)-1] != "" {
		l.program = slices.Concat(entry[len(entry)-1:], l.program)
	}
	l.replace = func(program []string) []string {
		own := []string{"run", "--rm", "--pull=never", "--name=" + probeName, "--entrypoint=" + program[0]}
		return slices.Concat(head, own, words, image, program[1:])
	}
	l.cleanup = slices.Concat(head, []string{"rm", "-f", probeName})
	l.certain = filepath.Base(head[0]) == "docker" // podman's configuration may pass variables on
	return l, nil
}

// parseExec reads the arguments of exec; head is the command line up to it.
func parseExec(head, args []string) (layer, error) {
	g := grammar{
		values: "-e -u -w --env --env-file --user --workdir --detach-keys --preserve-fds --preserve-fd",
		drop:   "-d --detach -i --interactive -t --tty", refuse: "-l --latest --help",
	}
	opts, rest, err := g.scan(args)
	if err != nil {
		return layer{}, err
	}
	if len(rest) < 2 {
		return layer{}, errMissing
	}
	l := containerLayer(head[0], "exec", opts)
	l.program = rest[1:]
	l.replace = before(head, []string{"exec"}, g.words(opts), rest[:1])
	return l, nil
}

// containerLayer returns the layer of a container with these options: -e NAME
// passes a variable on, -e NAME=value sets one.
func containerLayer(program, command string, opts []option) layer {
	env := valuesOf(opts, "-e", "--env")
	name := filepath.Base(program) + " " + command
	return layer{
		name: name, elsewhere: true, assigned: slices.Concat(assignments(env), valuesOf(opts, "--unsetenv")),
		passes: func(name string) bool { return has(opts, "--env-file", "--env-host") || matchesAny(env, name) },
		fix: func(names []string) string {
			return "pass them on, or start gorun inside the container:\n  " + name + " -e " + strings.Join(names, " -e ") + " ..."
		},
	}
}

// matchesAny reports whether a name is among the patterns of a wrapper's options.
func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, _ := path.Match(pattern, name)
		return ok
	})
}
