package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write gorun.1 and the variables of docs/docker.md anew")

// TestManPage checks that the manual page describes the existing commands and flags. It
// is made here and embedded, so that the program links no renderer.
func TestManPage(t *testing.T) {
	page := &cobra.Command{
		Use: "gorun [flags] PROGRAM [ARGS...]", DisableFlagsInUseLine: true, DisableAutoGenTag: true,
		Short: "start the workers of a training job on one node or many",
		Long:  manual(),
	}
	date := time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC)
	var b bytes.Buffer
	if err := doc.GenMan(page, &doc.GenManHeader{Title: "GORUN", Section: "1", Date: &date}, &b); err != nil {
		t.Fatal(err)
	}
	// The one flag that cobra adds by itself is described with the others.
	made := regexp.MustCompile(`(?s)\n\.SH OPTIONS\n\\fB-h\\fP.*?help for gorun\n+`).ReplaceAllString(b.String(), "\n")
	if *update {
		if err := os.WriteFile("gorun.1", []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if made != manPage {
		t.Error("gorun.1 is not what the commands and flags are now: go generate ./cmd/gorun")
	}
	for _, want := range slices.Concat(flagNames(checkFlags(), launchFlags(), sshFlags(), slurmFlags()), flagNames(jobFlags()...), commandNames(newRootCommand())) {
		if !strings.Contains(strings.ReplaceAll(manPage, `\-`, "-"), want) {
			t.Errorf("the manual page does not mention %s", want)
		}
	}
}

// manual is the text of the page, in Markdown.
func manual() string {
	var b strings.Builder
	b.WriteString(`gorun takes torchrun's place: it is started once on every node, finds the other
nodes, compares them, starts the workers on all of them or on none, and stops all
of them when one fails. PROGRAM is a Python script, a folder with a Go package, or
any other executable. Flags end at PROGRAM.

# EXAMPLES
` + examples(between(firstScreen, "executable\n\n", "\n\n")) + `
# COMMANDS
`)
	for _, c := range newRootCommand().Commands() {
		if !c.IsAvailableCommand() || c.Name() == "run" {
			continue
		}
		fmt.Fprintf(&b, "## %s\n%s\n\n", c.Name(), c.Long)
		fmt.Fprintf(&b, "**%s**\n\n%s%s", c.UseLine(), examples(c.Example), definitions(shownFlags(c)))
	}
	b.WriteString("# FLAGS\n")
	for _, group := range jobFlags() {
		fmt.Fprintf(&b, "## %s\n%s", group.title, definitions(flagSet(group)))
	}
	b.WriteString(`# EXIT STATUS
0 when every worker has ended with 0, else that of the first worker that failed in
the whole job (128 + n after signal n), on every node; 2 for a wrong command line;
75 when the nodes did not come together; 78 when the preflight refused the job; 137
when a node was lost.

# ENVIRONMENT
GORUN_NAME gives the default of each flag (GORUN_NNODES), PET_NAME that of a flag
that torchrun has, GORUN_SECRET the job's secret, PYTHON_EXEC the Python
interpreter.

# SEE ALSO
docs/usage.md, docs/checks.md and docs/explain.md of gorun.
`)
	return b.String()
}

// definitions lists flags and what they do.
func definitions(flags *pflag.FlagSet) string {
	var b strings.Builder
	plain := strings.NewReplacer("*", `\*`, "_", `\_`, "<", `\<`)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := "**--" + f.Name + "**"
		if f.Shorthand != "" {
			name = "**-" + f.Shorthand + "**, " + name
		}
		arg, usage := pflag.UnquoteUsage(f)
		if arg != "" {
			name += " " + plain.Replace(arg)
		}
		fmt.Fprintf(&b, "%s\n: %s\n\n", name, plain.Replace(usage))
	})
	return b.String()
}

// examples lists command lines; three spaces stand before what one does.
func examples(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		command, does, described := strings.Cut(strings.TrimSpace(line), "   ")
		if !described {
			fmt.Fprintf(&b, "```\n%s\n```\n\n", command)
			continue
		}
		fmt.Fprintf(&b, "**%s**\n: %s\n\n", command, strings.TrimSpace(does))
	}
	return b.String()
}

// between is the part of a text after one mark and before the next other one.
func between(text, after, before string) string {
	_, text, _ = strings.Cut(text, after)
	text, _, _ = strings.Cut(text, before)
	return text
}
