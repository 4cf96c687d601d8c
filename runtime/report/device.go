package report

import (
	"fmt"
	"io"

	"situ/runtime"
)

// Devices lists what was found to run kernels on.
func Devices(w io.Writer, d *runtime.Devices) error {
	if d.Driver > 0 {
		fmt.Fprintf(w, "CUDA driver %d.%d\n", d.Driver/1000, d.Driver%1000/10)
	}
	if d.Reason != "" {
		_, err := fmt.Fprintf(w, "no device: %s\n", d.Reason)
		return err
	}
	var g grid
	for _, x := range d.Devices {
		g.add(fmt.Sprintf("cuda:%d", x.Ordinal), x.Name, fmt.Sprintf("sm_%d", x.SM), fmt.Sprintf("%d SMs", x.SMs),
			Unit(1000*float64(x.ClockKHz), "Hz"), Unit(float64(x.MemoryBytes), "B"))
	}
	return g.write(w)
}

// DeviceRun writes what a device took for a model, launch by launch.
func DeviceRun(w io.Writer, r *runtime.DeviceRun) error {
	fmt.Fprintf(w, "%s   %s   on %s (cuda:%d)\n\n", r.Model, r.Quant, r.Device.Name, r.Device.Ordinal)
	var g grid
	g.add("launch", "measured", "predicted", "registers", "operator")
	for _, k := range r.Kernels {
		regs := fmt.Sprint(k.Registers)
		if k.LocalBytes > 0 {
			regs += fmt.Sprintf(" + %d B spilled", k.LocalBytes)
		}
		g.add(k.Kernel, Unit(k.MeasuredS, "s"), Unit(k.PredictedS, "s"), regs, fmt.Sprintf("%s %q", k.Op, k.Node))
	}
	g.add("all", Unit(r.LatencyS, "s"), Unit(r.Predicted, "s"))
	if err := g.write(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nmeasured: median of %d runs, between events on the device; predicted for %s from counts of its kernels\noutputs: %s\n", r.Runs, r.Arch, deviceBits(r))
	for _, o := range r.Outputs {
		fmt.Fprintf(w, "output %q %s[%s] sha256 %s\n", o.Name, o.Type, dimensions(o.Shape), o.SHA256[:16])
	}
	return nil
}

func deviceBits(r *runtime.DeviceRun) string {
	if r.BitExact {
		return "the same bits as the reference evaluator"
	}
	return fmt.Sprintf("%d of %d elements differ from the reference evaluator's, by at most %.4g", r.Different, r.Elements, r.MaxError)
}

// DeviceCheck sums up a check of a device.
func DeviceCheck(w io.Writer, c *runtime.DeviceCheck) error {
	fmt.Fprintf(w, "%s (cuda:%d), CUDA driver %d.%d\n\n", c.Device.Name, c.Device.Ordinal, c.Driver/1000, c.Driver%1000/10)
	var g grid
	m := &c.GEMM
	row := []string{fmt.Sprintf("int8 product, %d × %d × %d", m.Size, m.Size, m.Size)}
	switch {
	case m.Error != "":
		row = append(row, "", "failed: "+m.Error)
	default:
		speed := Unit(m.OpsPerS, "OPS")
		if m.PeakShare > 0 {
			speed += ", " + runtime.Percent(m.PeakShare) + " of peak"
		}
		bits := fmt.Sprintf("the same bits in %d rows", m.Rows)
		if !m.BitExact {
			bits = fmt.Sprintf("bits differ in the %d rows compared", m.Rows)
		}
		row = append(row, Unit(m.TimeS, "s"), speed+", "+bits)
	}
	g.add(row...)
	for _, x := range c.Models {
		if x.Run == nil {
			g.add(x.Name, "", "failed: "+x.Error)
			continue
		}
		g.add(x.Name, Unit(x.Run.LatencyS, "s"), "predicted "+Unit(x.Run.Predicted, "s")+", "+deviceBits(x.Run))
	}
	return g.write(w)
}
