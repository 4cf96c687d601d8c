package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"situ/arch"
	"situ/runtime"
	"situ/runtime/report"
)

func archCmd() *cobra.Command {
	c := &cobra.Command{Use: "arch", Short: "Architectures: presets, every figure with its source, and checking a description"}
	list := &cobra.Command{
		Use: "list", Short: "List the presets", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			rows, err := runtime.Archs()
			if err != nil {
				return err
			}
			if wantJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), rows)
			}
			return report.Archs(cmd.OutOrStdout(), rows)
		},
	}
	show := &cobra.Command{
		Use: "show NAME|FILE", Short: "Show every figure of an architecture with its source", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := arch.Load(args[0])
			if err != nil {
				return err
			}
			if wantJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), a)
			}
			return a.WriteTable(cmd.OutOrStdout())
		},
	}
	check := &cobra.Command{
		Use: "check FILE...", Short: "Check architecture descriptions", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, f := range args {
				if _, err := arch.Load(f); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: ok\n", f)
			}
			return nil
		},
	}
	c.AddCommand(list, show, check)
	return c
}
