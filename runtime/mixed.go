package runtime

import (
	"fmt"
	"math"
	"strconv"

	"situ/passes"
)

// Raised is a layer that has higher precision than the rest of the model.
type Raised struct {
	Node   string   `json:"node"`
	Op     string   `json:"op"`
	What   string   `json:"what"`              // what has more bits, and how many
	SQNRdB *float64 `json:"sqnr_db,omitempty"` // of its result with only what it has more bits of rounded as in the rest; absent where that is infinite
}

// autoSQNR is the ratio, in dB, that outputs are to reach on real calibration
// inputs before no layer is given higher precision: what Check asks for.
const autoSQNR = minSQNR

// mixed reads QuantOptions.Mixed into q. real says that calibration inputs are
// such as the model is made for; what synthetic ones lose says nothing.
func mixed(s string, real bool, q *passes.Quantisation) error {
	switch s {
	case "", "auto":
		if real {
			q.MinSQNR = autoSQNR
		}
		return nil
	case "none":
		return nil
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v <= 1) {
		return fmt.Errorf("mixed precision %q: auto, none, or the share of multiply-accumulates and of weight bytes that may be added, from 0 to 1", s)
	}
	q.Mixed = v
	return nil
}

func raisedOf(list []passes.Raised) []Raised {
	var out []Raised
	for _, r := range list {
		o := Raised{Node: r.Node, Op: r.Op, What: r.What}
		if !math.IsInf(r.SQNRdB, 0) && !math.IsNaN(r.SQNRdB) {
			o.SQNRdB = &r.SQNRdB
		}
		out = append(out, o)
	}
	return out
}

// withRaised adds to the name of a precision how many layers have a higher one.
func withRaised(quant string, raised []Raised) string {
	switch n := len(raised); n {
	case 0:
		return quant
	case 1:
		return quant + ", 1 layer higher"
	default:
		return fmt.Sprintf("%s, %d layers higher", quant, n)
	}
}

// describe fills in what a result owes to how the model was quantised.
func (p *Prepared) describe(r *Result) {
	r.Fallback, r.Raised = p.Fallback, p.Raised
	p.describeHost(r)
}
