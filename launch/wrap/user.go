package wrap

import (
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/term"
)

// parseSudo reads sudo. A probe never asks for a password.
func parseSudo(argv []string) (layer, error) {
	g := grammar{
		flags: "AEHiknPsSNB", values: "aCcDghpRrTtUu", long: "askpass preserve-env set-home login reset-timestamp non-interactive preserve-groups shell stdin no-update bell",
		valued: "auth-type close-from login-class chdir group host prompt chroot role command-timeout type other-user user",
		refuse: "-b --background -e --edit -K --remove-timestamp -l --list -v --validate -V --version --help", drop: "-n -k -A -S --non-interactive --reset-timestamp --askpass --stdin",
		assigned: true,
	}
	opts, rest, err := g.scan(argv[1:])
	if err != nil {
		return layer{}, err
	}
	if len(rest) == 0 {
		return layer{}, errMissing
	}
	words := g.words(opts)
	return layer{
		name: "sudo", program: rest, meant: assignments(given(opts, "=")),
		around: func(probe []string) []string { return join(argv[:1], []string{"-n"}, words, probe) },
		fix: func(names []string) string {
			return "give sudo the names of the variables (sudoers must allow it: SETENV, or env_keep):\n  sudo --preserve-env=" + strings.Join(names, ",") + " ..."
		},
	}, nil
}

// parseSu reads su and runuser with a text for the user's shell, and runuser -u
// with a program.
func parseSu(argv []string) (layer, error) {
	g := grammar{
		flags: "flmpPT", values: "cgGswu", long: "fast login preserve-environment pty no-pty",
		valued: "command group supp-group shell whitelist-environment user", drop: "-P --pty -c --command", refuse: "--session-command",
	}
	opts, rest, err := g.scan(argv[1:])
	if err != nil {
		return layer{}, err
	}
	name := base(argv[0])
	if has(opts, "-u", "--user") {
		if name != "runuser" || len(rest) == 0 {
			return layer{}, errUnread
		}
		head := join(argv[:1], g.words(opts), []string{"--"})
		return layer{name: name, keeps: true, program: rest, around: func(probe []string) []string { return join(head, probe) }}, nil
	}
	login := has(opts, "-l", "--login")
	head := join(argv[:1], g.words(opts))
	if len(rest) > 0 && rest[0] == "-" {
		login, head, rest = true, append(head, "-"), rest[1:]
	}
	if len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		head, rest = append(head, rest[0]), rest[1:]
	}
	more, rest, err := g.scan(rest) // options may also stand behind the user
	if err != nil {
		return layer{}, err
	}
	opts = append(opts, more...)
	login = login || has(more, "-l", "--login")
	texts := given(opts, "-c", "--command")
	if len(texts) != 1 || len(rest) > 0 {
		return layer{}, errUnread
	}
	head = append(head, g.words(more)...)
	l := layer{
		name: name, keeps: !login,
		around: func(probe []string) []string { return join(head, []string{"-c", term.Command(probe...)}) },
		fix: func(names []string) string {
			return "leave out what makes " + name + " a login, or name the variables:\n  " + name + " --whitelist-environment=" + strings.Join(names, ",") + " ..."
		},
	}
	l.read(texts[0])
	return l, nil
}

// parseShell reads a shell that gets a text, or a login shell with a script. Any
// other script is the program itself; parseShell then returns a layer without a
// name.
func parseShell(argv []string) (layer, error) {
	var head []string // options but for -c
	login, text := false, false
	args := argv[1:]
	for len(args) > 0 && len(args[0]) > 1 && (args[0][0] == '-' || args[0][0] == '+') {
		word := args[0]
		args = args[1:]
		if word == "--" {
			break
		}
		if long, ok := strings.CutPrefix(word, "--"); ok {
			switch {
			case long == "login":
				login = true
			case listed("rcfile init-file", long) && len(args) > 0:
				head, word, args = append(head, word), args[0], args[1:]
			case !listed("norc noprofile posix restricted verbose noediting no-rcs", long):
				return layer{}, errUnread
			}
			head = append(head, word)
			continue
		}
		letters := word[1:]
		if word[0] == '-' {
			login = login || strings.Contains(letters, "l")
			text = text || strings.Contains(letters, "c")
			letters = strings.NewReplacer("c", "", "s", "").Replace(letters)
		}
		if strings.ContainsAny(letters, "i") {
			login = true // an interactive shell reads other start files, but it reads some
		}
		if letters != "" {
			head = append(head, word[:1]+letters)
		}
		if n := strings.Count(letters, "o") + strings.Count(letters, "O"); n > 0 {
			if n > len(args) {
				return layer{}, errMissing
			}
			head, args = append(head, args[:n]...), args[n:]
		}
	}
	if len(args) == 0 || !text && !login {
		return layer{}, nil
	}
	l := layer{
		name: base(argv[0]), keeps: !login, login: login,
		around: func(probe []string) []string { return join(argv[:1], head, []string{"-c", term.Command(probe...)}) },
	}
	if login {
		l.name += " -l"
		l.fix = func([]string) string {
			return "see what its start files (/etc/profile, /etc/profile.d, ~/.bash_profile, ~/.profile, ~/.bashrc) set, or start " + base(argv[0]) + " without -l"
		}
	}
	if text {
		l.read(args[0])
	} else {
		l.program = slices.Clone(args)
	}
	return l, nil
}

// read reads a shell's text. If the text is one plain command, read takes it as a
// command line, which may contain other wrappers.
func (l *layer) read(text string) {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=@%+ "
	words := strings.Fields(text)
	if len(words) > 1 && words[0] == "exec" {
		words = words[1:]
	}
	if strings.Trim(text, safe) == "" && len(words) > 0 && !isAssignment(words[0]) && strings.Trim(words[0], "-") == words[0] && !builtin(words[0]) {
		l.program = words
		return
	}
	l.text = text
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n;&|(){}`\"'", r) }) {
		if name, _, ok := strings.Cut(word, "="); ok && isName(name) {
			l.meant = append(l.meant, name)
		}
	}
}

// builtin reports whether a word is a shell's own command, after which no program
// follows.
func builtin(word string) bool {
	return slices.Contains([]string{"cd", "export", "set", "unset", "source", ".", "if", "for", "while", "case", "eval", "ulimit", "umask", "command"}, word)
}
