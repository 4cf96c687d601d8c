package pim

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"situ/ir"
	"situ/ir/irtest"
)

// TestNormalisedResponses runs local response normalisation over windows from one
// channel to more than there are.
func TestNormalisedResponses(t *testing.T) {
	for _, size := range []int{1, 5, 8, 9, 16, 40, 1 << 20} {
		g, err := ir.Parse(fmt.Sprintf(`graph "g" {
	%%0 = input "x" : f32[1,3,2,16]
	%%1 = lrn %%0 {axis=3, size=%d, alpha=0.5, beta=0.75, bias=1} : f32[1,3,2,16]
	output %%1
}`, size), nil)
		if err != nil {
			t.Fatal(err)
		}
		c := tinyChip()
		p, err := Compile(g, c, Options{})
		if err != nil {
			t.Fatal(err)
		}
		sameBits(t, g, c, p, []*ir.Tensor{irtest.Tensor(rand.New(rand.NewPCG(1, 2)), 3, 1, 3, 2, 16)})
	}
}
