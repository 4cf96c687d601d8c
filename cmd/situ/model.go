package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"situ/models"
	"situ/runtime"
	"situ/runtime/report"
)

func modelCmd() *cobra.Command {
	c := &cobra.Command{Use: "model", Short: "Models that ship, and what is in a model file"}
	list := &cobra.Command{
		Use: "list", Short: "List the models that ship", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if wantJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), models.List())
			}
			return report.Models(cmd.OutOrStdout(), models.List())
		},
	}
	var mf modelFlags
	info := &cobra.Command{
		Use: "info MODEL", Short: "Inputs, outputs, operators, parameters and multiply-accumulates of a model", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			mo, err := mf.options()
			if err != nil {
				return err
			}
			i, err := runtime.Info(args[0], mo)
			if err != nil {
				return err
			}
			if wantJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), i)
			}
			return report.Info(cmd.OutOrStdout(), i)
		},
	}
	mf.add(info.Flags())
	var out string
	var force bool
	var ef modelFlags
	export := &cobra.Command{
		Use: "export NAME", Short: "Write a model that ships as an ONNX file", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return errors.New("export needs -o FILE")
			}
			o, err := ef.options()
			if err != nil {
				return err
			}
			m, ok := models.Find(args[0])
			if !ok {
				return fmt.Errorf("no model %q ships; there is: %s", args[0], models.Names())
			}
			b, err := m.ONNX(o.Dims)
			if err != nil {
				return err
			}
			return writeFile(cmd, out, force, b)
		},
	}
	export.Flags().StringVarP(&out, "output", "o", "", "ONNX file to write")
	export.Flags().BoolVar(&force, "force", false, "replace the file if it exists")
	ef.add(export.Flags())
	c.AddCommand(list, info, export)
	return c
}
