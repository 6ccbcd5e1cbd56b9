package wrap

import (
	"errors"
	"fmt"
	"strings"
)

// errUnread is the error of a known wrapper with a command line that gorun does not
// understand.
var errUnread = errors.New("its command line is not understood here")

// plain returns the function that reads a wrapper whose arguments are options and
// then a fixed number of words before the program.
func plain(name string) func([]string) (layer, error) {
	g, own := grammar{}, 0
	switch name {
	case "nice":
		g = grammar{flags: "0123456789", values: "n", valued: "adjustment"}
	case "timeout":
		g, own = grammar{flags: "vfp", values: "ks", long: "foreground preserve-status verbose", valued: "kill-after signal"}, 1
	case "taskset":
		g, own = grammar{flags: "ac", long: "all-tasks cpu-list", refuse: "-p --pid"}, 1
	case "numactl":
		g = grammar{
			flags: "lab", values: "iNCmpPw", long: "localalloc all balancing",
			valued: "interleave cpunodebind physcpubind membind preferred preferred-many weighted-interleave", refuse: "-H -s --hardware --show",
		}
	case "chroot":
		g, own = grammar{long: "skip-chdir", valued: "groups userspec"}, 1
	case "unshare":
		g = grammar{
			flags: "frc", maybe: "muinpUCT", values: "RwSGl", long: "fork map-root-user map-current-user map-auto keep-caps mount-proc mount-binfmt kill-child " +
				"mount uts ipc net pid user cgroup time",
			valued: "root wd setuid setgid propagation setgroups map-user map-group map-users map-groups monotonic boottime load-interp",
		}
	case "nsenter":
		g = grammar{
			flags: "aeFZc", maybe: "muinpUCTrwW", values: "tSGN",
			long:   "all env no-fork follow-context join-cgroup mount uts ipc net pid user cgroup time root wd wdns preserve-credentials user-parent keep-caps",
			valued: "target setuid setgid net-socket",
		}
	case "setpriv":
		g = grammar{
			long: "clear-groups keep-groups init-groups no-new-privs nnp reset-env",
			valued: "reuid regid ruid euid rgid egid groups inh-caps ambient-caps bounding-set securebits pdeathsig ptracer " +
				"selinux-label apparmor-profile landlock-access landlock-rule seccomp-filter",
			refuse: "-d --dump --list-caps",
		}
	case "stdbuf":
		g = grammar{values: "ioe", valued: "input output error"}
	case "ionice":
		g = grammar{flags: "t", values: "cn", long: "ignore", valued: "class classdata", refuse: "-p -P -u --pid --pgid --uid"}
	case "chrt":
		g, own = grammar{flags: "abdfiorRv", values: "TPD", long: "all-tasks batch deadline fifo idle other rr reset-on-fork verbose", refuse: "-p -m --pid --max"}, 1
	case "setsid":
		g = grammar{flags: "cw", long: "ctty wait", refuse: "-f --fork", drop: "-c --ctty"}
	}
	return func(argv []string) (layer, error) {
		opts, rest, err := g.scan(argv[1:])
		if err != nil {
			return layer{}, err
		}
		if len(rest) <= own {
			return layer{}, errMissing
		}
		head := join(argv[:1], g.words(opts), rest[:own])
		l := layer{
			name: base(argv[0]), keeps: true, program: rest[own:],
			around: func(probe []string) []string { return join(head, probe) },
		}
		for _, o := range []string{"--reset-env", "-e", "--env"} {
			if has(opts, o) && (name == "setpriv" || name == "nsenter") {
				l.keeps, l.fix = false, leaveOut(l.name, o)
			}
		}
		return l, nil
	}
}

// parseNetns reads ip netns exec NAME PROGRAM.
func parseNetns(argv []string) (layer, error) {
	if len(argv) < 5 || argv[1] != "netns" || argv[2] != "exec" || strings.HasPrefix(argv[3], "-") {
		return layer{}, errUnread
	}
	return layer{
		name: "ip netns exec", keeps: true, program: argv[4:],
		around: func(probe []string) []string { return join(argv[:4], probe) },
	}, nil
}

// parseEnv reads env. What env sets or removes by name is the user's own choice.
func parseEnv(argv []string) (layer, error) {
	g := grammar{
		flags: "iv", values: "uCa", long: "ignore-environment debug block-signal default-signal ignore-signal list-signal-handling",
		valued: "unset chdir argv0", refuse: "-S --split-string -0 --null", assigned: true,
	}
	args, clear := argv[1:], false
	opts, rest, err := g.scan(args)
	if err == nil && len(rest) > 0 && rest[0] == "-" { // means -i
		var more []option
		clear = true
		more, rest, err = g.scan(rest[1:])
		opts = append(append(opts, option{name: "-i", words: []string{"-i"}}), more...)
	}
	for err == nil && len(rest) > 0 && isAssignment(rest[0]) { // after --
		opts, rest = append(opts, option{"=", rest[0], rest[:1:1]}), rest[1:]
	}
	if err != nil {
		return layer{}, err
	}
	if len(rest) == 0 {
		return layer{}, errMissing
	}
	clear = clear || has(opts, "-i", "--ignore-environment")
	var settings, words []string
	for _, o := range opts {
		if o.name == "=" {
			settings = append(settings, o.value)
		} else {
			words = append(words, o.words...)
		}
	}
	l := layer{
		name: "env", keeps: !clear, program: rest, meant: join(assignments(settings), given(opts, "-u", "--unset")),
		around: func(probe []string) []string { return join(argv[:1], words, settings, probe) },
	}
	if clear {
		l.name = "env -i"
		l.fix = func([]string) string {
			return "leave out env's -i; env -u NAME takes away a single variable that the program must not see"
		}
	}
	return l, nil
}

func leaveOut(wrapper, option string) func([]string) string {
	return func([]string) string { return fmt.Sprintf("leave out %s's %s", wrapper, option) }
}
