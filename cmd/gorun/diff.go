package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// newDiffCommand makes the command that compares gorun with torchrun.
func newDiffCommand() *cobra.Command {
	var o jobOptions
	cmd := &cobra.Command{
		Use:   "torchrun-diff [flags] PROGRAM [ARGS...]",
		Short: "Print what gorun does otherwise than torchrun",
		Long: `Print what gorun does otherwise than torchrun for a command line and the
variables of this shell, a line each, and start nothing. It prints nothing where
both do the same. It takes the flags of gorun run and ends with 0, or with 2 for
a wrong command line. docs/from-torchrun.md lists all differences.`,
		Example: `  gorun torchrun-diff --nnodes 2 --rdzv-endpoint node1 train.py`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.complete(cmd, args)
			sp, err := o.resolve()
			if err != nil {
				return usagef("%w", err)
			}
			for _, d := range o.raw.Differences(os.LookupEnv, sp) {
				fmt.Fprintln(cmd.OutOrStdout(), d)
			}
			return nil
		},
	}
	o.addFlags(cmd, jobFlags()...)
	return cmd
}
