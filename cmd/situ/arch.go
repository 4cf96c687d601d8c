package main

import (
	"errors"
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
			type result struct {
				File string `json:"file"`
				OK   bool   `json:"ok"`
				Err  string `json:"error,omitempty"`
			}
			var rs []result
			var errs []error
			for _, f := range args {
				r := result{File: f, OK: true}
				if _, err := arch.ParseFile(f); err != nil {
					errs = append(errs, err)
					r.OK, r.Err = false, err.Error()
				}
				rs = append(rs, r)
				if r.OK && !wantJSON(cmd) {
					if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: ok\n", f); err != nil {
						return err
					}
				}
			}
			if wantJSON(cmd) {
				if err := printJSON(cmd.OutOrStdout(), rs); err != nil {
					return err
				}
			}
			return errors.Join(errs...)
		},
	}
	c.AddCommand(list, show, check)
	return c
}
