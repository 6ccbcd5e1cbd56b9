package rules

import (
	"fmt"
	"strings"
)

//go:generate go test . -run TestCatalogueIsWritten -update

// Catalogue returns the text of docs/checks.md, which describes every rule.
func Catalogue() string {
	var b strings.Builder
	b.WriteString(`# What gorun checks before it starts workers

<!-- Written from the code by go generate ./rendezvous/preflight/rules: change the rules, not this page. -->

Every node gathers facts about itself while the nodes meet. The coordinator compares them, and the nodes connect to each other as their workers would. An **error** would fail, hang or give wrong results: no worker is started, and every node ends with code 78 and shows the same table. A **warning** may fail or be slow; a **note** is recorded. A fact that a node could not learn is unknown; no check counts it as good or bad.

` + "`--preflight=warn` starts the workers all the same, `--preflight=off` checks nothing (but variables that must agree still get one value), and `--ignore V01,iface-asked` leaves out single checks, by id or name." + `

Checks of NCCL concern a job only when a node of it has an NVIDIA driver, checks of Gloo only when torch is there and no GPU is, and checks between nodes concern only nodes that do not share one machine and one network namespace.

| id | name | severity | what it checks |
| --- | --- | --- | --- |
`)
	rules := All()
	for _, r := range rules {
		fmt.Fprintf(&b, "| [%s](#%s-%s) | %s | %s | %s |\n", r.ID, strings.ToLower(r.ID), r.Name, r.Name, r.Severity, r.Meaning)
	}
	for _, r := range rules {
		fmt.Fprintf(&b, "\n## %s %s\n%s\n", r.ID, r.Name, r.Meaning)
		if r.Symptom != "" {
			fmt.Fprintf(&b, "\n*Without this check:* %s\n", r.Symptom)
		}
		fmt.Fprintf(&b, "\n*Fix:* %s\n", fixMarkdown(r.Example()))
	}
	return b.String()
}

// fixMarkdown makes a block of the lines that can be pasted.
func fixMarkdown(fix string) string {
	var b strings.Builder
	code := false
	for line := range strings.Lines(fix + "\n") {
		command, isCode := strings.CutPrefix(line, "  ")
		if isCode != code {
			b.WriteString("```\n")
			code = isCode
		}
		switch {
		case isCode:
			line = command
		case b.Len() > 0:
			b.WriteByte('\n') // a paragraph of its own
		}
		b.WriteString(line)
	}
	if code {
		b.WriteString("```\n")
	}
	return strings.TrimRight(b.String(), "\n")
}
