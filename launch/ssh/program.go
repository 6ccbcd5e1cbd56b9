package ssh

import (
	"fmt"
	"strings"

	"github.com/gorun/gorun/internal/term"
)

// Program is the program that both ends run.
type Program struct {
	Path    string // of this program; a host that has a gorun there uses it
	File    string // the same, even if the file was replaced
	Size    int64  // of the file, in bytes
	ID      string // names a copy in a host's cache; changes with the content
	Version string // what the program prints behind "gorun version "; "": copies only are trusted
	Arch    string // machine that it is for, as uname -m has it; "": unknown
	// Copy sends the file to hosts that have no gorun of this version.
	Copy bool
}

// NodeCommand is the hidden command of gorun that calls Serve.
const NodeCommand = "ssh-node"

// script finds gorun on a host and executes it. Its arguments are the token, the copy's
// id, the question, the path of gorun at the user, the version that a gorun must have
// ("": any), and the size of the copy that comes if none is found ("": none). Another user
// of the host may have made a file at that path, so its owner counts. The script
// has no ', no \, no ! and no line end, so that each login shell passes it on as it is.
const script = `c="${XDG_CACHE_HOME:-$HOME/.cache}/gorun/$2/gorun"; ` +
	`for g in "$c" "$4" "$(command -v gorun)" "$HOME/.local/bin/gorun" "$HOME/go/bin/gorun"; do ` +
	`if test -f "$g" && test -x "$g" && if test "$g" = "$4"; then test -O "$g" || test "$(stat -c %u "$g")" = 0; fi; then ` +
	`if test "$g" = "$c" || test -z "$5" || test "$("$g" version 2>/dev/null)" = "gorun version $5"; then exec "$g" ` + NodeCommand + ` "$3"; fi; ` +
	`fi; done; ` +
	`echo; echo "$1 missing $(uname -m)"; ` +
	`test -n "$6" || exit 127; ` +
	`umask 077; t=; mkdir -p "${c%/*}" && t=$(mktemp "${c%/*}/new.XXXXXX") && head -c "$6" >"$t" && test "$(wc -c <"$t")" -eq "$6" && ` +
	`chmod 700 "$t" && "$t" version >/dev/null && mv "$t" "$c" && exec "$c" ` + NodeCommand + ` "$3"; ` +
	`test -z "$t" || rm -f "$t"; exit 1`

// command returns the shell command for a host.
func (p Program) command(token, question string) string {
	words := []string{"gorun", token, p.ID, question, shellSafe(p.Path), "", ""}
	if p.Copy {
		words[5], words[6] = "-", fmt.Sprint(p.Size) // no gorun has the version "-"
		if p.Version != "" {
			words[5] = shellSafe(p.Version)
		}
	}
	return "exec /bin/sh -c '" + script + "' " + term.Command(words...)
}

// shellSafe returns s, or "" if a shell could take one of its characters as special.
func shellSafe(s string) string {
	if strings.ContainsAny(s, `'"\!`) || !term.IsPrintable(s) {
		return ""
	}
	return s
}
