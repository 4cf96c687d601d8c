package runtime

import (
	"fmt"

	"situ/arch"
)

// Chips are not emulated at a power they may not draw: where an inference takes more
// energy than tdp_w allows in its time, it takes the longer, as with a lower clock at
// the same voltage. Cycles and counts stay; energy by operation stays; static energy
// grows with time. GPUs are modelled alike.

// setStatic replaces the static energy.
func (e *Energy) setStatic(j float64) {
	e.Total += j - e.Static
	e.Static = j
}

// limit stretches what takes some seconds and this energy to the chip's tdp_w, and
// returns by how much: at least 1.
func (e *Energy) limit(s float64, c *arch.Chip) float64 {
	static, most := c.Power.StaticW.Value, c.Power.TDPW.Value
	dynamic := e.Total - e.Static
	if s <= 0 || dynamic/s+static <= most {
		return 1
	}
	longer := dynamic / (most - static)
	e.setStatic(static * longer)
	return longer / s
}

// slowDown holds one run to the chip's tdp_w.
func (r *Result) slowDown(c *arch.Chip) {
	before := r.Energy.Total / r.LatencyS
	slower := r.Energy.limit(r.LatencyS, c)
	if slower == 1 {
		return
	}
	r.LatencyS *= slower
	r.Utilisation /= slower
	r.Notes = append(r.Notes, fmt.Sprintf("one run at %g MHz would draw %.3g W, tdp_w is %g W: it is slowed down %.3g times", c.ClockMHz.Value, before, c.Power.TDPW.Value, slower))
}

// powerNote says that the steady figures are held to the chip's tdp_w.
func powerNote(c *arch.Chip) string {
	return fmt.Sprintf("at steady state %g W, its tdp_w, is what slows the chip down", c.Power.TDPW.Value)
}
