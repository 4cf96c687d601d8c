package main

import (
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"situ/runtime"
)

func disCmd() *cobra.Command {
	var out string
	var force bool
	c := &cobra.Command{
		Use:   "dis FILE.pim",
		Short: "Print a program as assembly text",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeOut(cmd, out, force, func(w io.Writer) error {
				if !wantJSON(cmd) {
					return runtime.Disassemble(w, args[0])
				}
				var text strings.Builder
				if err := runtime.Disassemble(&text, args[0]); err != nil {
					return err
				}
				return printJSON(w, map[string]string{"program": args[0], "text": text.String()})
			})
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "file to write instead of standard output")
	c.Flags().BoolVar(&force, "force", false, "replace the file if it exists")
	return c
}

func asmCmd() *cobra.Command {
	var out string
	var force bool
	c := &cobra.Command{
		Use:   "asm FILE.s",
		Short: "Assemble a program from text",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return errors.New("asm needs -o FILE for the program")
			}
			b, err := runtime.Assemble(args[0])
			if err != nil {
				return err
			}
			return writeFile(cmd, out, force, b)
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "program file to write")
	c.Flags().BoolVar(&force, "force", false, "replace the file if it exists")
	return c
}
