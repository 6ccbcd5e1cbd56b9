package main

import (
	"context"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/rendezvous/preflight/rules"
)

// matching returns the offers that begin with what is typed. An offer may have a
// description, after a tab.
func matching(offers []string, typed string) []string {
	return slices.DeleteFunc(offers, func(s string) bool { return !strings.HasPrefix(s, typed) })
}

// complete returns values of the flag.
func (f jobFlag) complete(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	values := f.known()
	if !f.list {
		return matching(values, typed), cobra.ShellCompDirectiveNoFileComp
	}
	if last := strings.LastIndexByte(typed, ',') + 1; last > 0 {
		for i, v := range values {
			v, _, _ = strings.Cut(v, "\t") // cobra's script for bash does not find it with a description
			values[i] = typed[:last] + v
		}
	}
	return matching(values, typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// known returns the values of the flag that completion can offer: the flag's own values,
// the literal words of "N|auto|gpu|cpu", and this machine's values.
func (f jobFlag) known() []string {
	values := slices.Clone(f.values)
	for w := range strings.SplitSeq(f.arg, "|") {
		if w == strings.ToLower(w) && !strings.Contains(w, "=") {
			values = append(values, w)
		}
	}
	switch f.name {
	case "iface":
		links, _ := net.Interfaces()
		for _, l := range links {
			values = append(values, l.Name)
		}
	case "local-addr":
		addrs, _ := net.InterfaceAddrs()
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				values = append(values, p.Addr().String())
			}
		}
	case "export", "unset":
		for _, entry := range os.Environ() {
			name, _, _ := strings.Cut(entry, "=")
			values = append(values, name)
		}
	case "ignore":
		for _, r := range rules.All() {
			values = append(values, r.ID+"\t"+r.Name)
		}
	case "run-id":
		values = append(values, runningJobs(func(a status.Agent) string { return a.RunID })...)
	case "pid":
		values = append(values, runningJobs(func(a status.Agent) string { return strconv.Itoa(a.Keeper) })...)
	}
	return values
}

// runningJobs returns a property of each agent that runs here.
func runningJobs(of func(status.Agent) string) []string {
	client := status.Client{UID: os.Geteuid()}
	found, err := client.Find(context.Background())
	if err != nil {
		return nil
	}
	var values []string
	for _, a := range found.Agents {
		values = append(values, of(a))
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// shells returns the shells that have a script, and says how to use it.
func shells() []string {
	return []string{
		"bash\tsource <(gorun completion bash)",
		"zsh\tsource <(gorun completion zsh)",
		"fish\tgorun completion fish | source",
	}
}

func newCompletionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "completion bash|zsh|fish", DisableFlagsInUseLine: true,
		Short: "Print a script that completes gorun's command line",
		Long: `Print a script with which a shell completes commands, flags and their values.
For all sessions put the line below into ~/.bashrc, ~/.zshrc (after compinit) or
~/.config/fish/config.fish. The one for bash needs nothing else.`,
		Example: `  source <(gorun completion bash)
  source <(gorun completion zsh)
  gorun completion fish | source`,
		ValidArgsFunction: func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return offer(args, typed, shells()), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), cmd.OutOrStdout()
			switch strings.Join(args, " ") {
			case "bash":
				if err := root.GenBashCompletionV2(out, true); err != nil {
					return err
				}
				_, err := out.Write([]byte(bashWords))
				return err
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			}
			return usagef("name one shell, bash, zsh or fish: gorun completion bash")
		},
	}
}

// offer returns the offers for the only argument of a command.
func offer(args []string, typed string, offers []string) []string {
	if len(args) > 0 {
		return nil
	}
	return matching(offers, typed)
}

// bashWords replaces the one function for which cobra's script needs the package
// bash-completion. It joins what bash splits at = and :.
const bashWords = `
# Without the package bash-completion: the words up to the cursor, as a shell
# sees them.
__gorun_init_completion()
{
    COMPREPLY=()
    local rest=${COMP_LINE:0:COMP_POINT} word i n=-1
    words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((n < 0)) || [[ $rest == [[:space:]]* ]]; then
            words[++n]=
            rest=${rest#"${rest%%[![:space:]]*}"}
        fi
        [[ $rest == "$word"* ]] || word=$rest # the cursor is in it
        words[n]+=$word
        rest=${rest#"$word"}
    done
    cword=$n
    cur=${words[n]}
    prev=
    ((n == 0)) || prev=${words[n - 1]}
}
`
