package wrap

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/smallfile"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// Bounds of what gorun reads of start files.
const (
	maxFiles = 200
	maxFile  = 256 << 10 // bytes; a longer file counts with its beginning
)

// fix says how to get the variables through: for each wrapper whose options do not
// pass them on, or for every wrapper if the options do not explain the loss. setBy
// finds the start file that sets a variable, or returns "". fix calls setBy only
// for login shells of this machine.
func (p Prefix) fix(lost preflight.WrapperLoss, setBy func(name string) string) string {
	lines := p.wrapperFixes(lost, setBy, false)
	if lines == nil {
		lines = p.wrapperFixes(lost, setBy, true)
	}
	if len(lost.Forced) > 0 {
		lines = append(lines, "do not give "+strings.Join(lost.Forced, ", ")+" a value of your own on the command line: every worker has another")
	}
	return strings.Join(lines, "\n")
}

func (p Prefix) wrapperFixes(lost preflight.WrapperLoss, setBy func(name string) string, every bool) []string {
	var lines []string
	isHere := true // no layer so far led to another file system
	for _, l := range p.layers {
		if l.lossless {
			continue
		}
		open := slices.DeleteFunc(slices.Concat(lost.Missing, lost.Changed), func(name string) bool {
			return l.assigns(name) || !every && l.passes != nil && l.passes(name)
		})
		var found []string
		if l.login && isHere {
			for _, name := range open {
				if file := setBy(name); file != "" {
					found = append(found, fmt.Sprintf("%s sets or unsets %s: take it out there, or start %s", file, name, strings.TrimSuffix(l.name, " -l")+" without -l"))
				}
			}
		}
		switch {
		case len(found) > 0:
			lines = append(lines, found...)
		case len(open) > 0:
			lines = append(lines, l.fix(open))
		}
		isHere = isHere && !l.elsewhere
	}
	return lines
}

// startFile finds the start file of a login shell whose text sets or unsets a
// variable. It returns "" if no file that it can read does.
func startFile(root, home, name string) string {
	files := []string{"/etc/profile", "/etc/bash.bashrc", "/etc/bashrc", "/etc/environment", "/etc/zsh/zprofile", "/etc/zprofile"}
	more, _ := filepath.Glob(filepath.Join(root, "/etc/profile.d/*.sh"))
	for _, f := range more {
		files = append(files, strings.TrimPrefix(f, filepath.Clean(root)))
	}
	if home != "" {
		for _, f := range []string{".bash_profile", ".bash_login", ".profile", ".bashrc", ".zprofile", ".zshrc"} {
			files = append(files, filepath.Join(home, f))
		}
	}
	for _, f := range files[:min(len(files), maxFiles)] {
		if file := filepath.Join("/", f); sets(filepath.Join(root, file), name) {
			return file
		}
	}
	return ""
}

// sets reports whether the text of a start file assigns or unsets the variable.
func sets(file, name string) bool {
	text, _, err := smallfile.Read(file, maxFile)
	if err != nil {
		return false
	}
	for line := range bytes.Lines(text) {
		words := strings.FieldsFunc(string(line), func(r rune) bool { return strings.ContainsRune(" \t\n;&|(){}", r) })
		for i, word := range words {
			if word == "" || word[0] == '#' {
				break
			}
			if strings.HasPrefix(word, name+"=") || word == name && slices.Contains(words[:i], "unset") {
				return true
			}
		}
	}
	return false
}
