package sequence

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"situ/backend/pim/isa"
)

// walk lists what a cursor yields, control left out, as "op dst".
func walk(t *testing.T, insts ...isa.Inst) (list []string, err error) {
	t.Helper()
	s := &isa.Stream{Insts: insts, Layer: make([]int32, len(insts))}
	var c Cursor
	for range 2 { // a cursor can be used again
		list = nil
		c.Start(s)
		var st Step
		for {
			ok, err := c.Next(&st)
			if err != nil {
				return list, err
			}
			if !ok {
				break
			}
			if st.Op.Info().Unit != isa.UnitCtrl {
				list = append(list, fmt.Sprintf("%s %d", st.Op, st.Args[0]))
			}
		}
	}
	return list, nil
}

func fill(dst int64) isa.Inst { return isa.Inst{Op: isa.OpFill, Args: []int64{dst, 1, 0, 1, 0, 1, 0}} }
func times(n int64) isa.Inst  { return isa.Inst{Op: isa.OpLoop, Args: []int64{n}} }
func set(r, x int64) isa.Inst { return isa.Inst{Op: isa.OpSet, Args: []int64{r, x}} }
func addi(r, x int64) isa.Inst {
	return isa.Inst{Op: isa.OpAddi, Args: []int64{r, x}}
}

func TestLoopsAndRegisters(t *testing.T) {
	next, halt := isa.Inst{Op: isa.OpNext}, isa.Inst{Op: isa.OpHalt}
	got, err := walk(t,
		set(1, 100), times(2), set(2, 0), times(3), fill(isa.Addr(7, 2)), addi(2, 10), next, fill(isa.Addr(0, 1)), addi(1, -50), next,
		fill(isa.Addr(3, 15)), halt, fill(9))
	want := []string{"fill 7", "fill 17", "fill 27", "fill 100", "fill 7", "fill 17", "fill 27", "fill 50", "fill 3"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("walked %v, %v; want %v", got, err, want)
	}
}

// TestRegistersStay: registers keep their values from stream to stream, and what goes
// round comes back to its start.
func TestRegistersStay(t *testing.T) {
	s := &isa.Stream{Insts: []isa.Inst{fill(isa.Addr(5, 4)), {Op: isa.OpWrap, Args: []int64{4, 16, 48}}}, Layer: make([]int32, 2)}
	var c Cursor
	var at []int64
	for n := range 6 {
		if n == 5 {
			c.Reset()
		}
		c.Start(s)
		var st Step
		for {
			ok, err := c.Next(&st)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if st.Op == isa.OpFill {
				at = append(at, st.Args[0])
			}
		}
	}
	if want := []int64{5, 21, 37, 5, 21, 5}; !slices.Equal(at, want) {
		t.Errorf("filled at %v, want %v", at, want)
	}
}

func TestAddressFaults(t *testing.T) {
	for _, x := range []int64{-8, 1 << 48} {
		_, err := walk(t, set(3, x), fill(isa.Addr(7, 3)))
		if err == nil || !strings.Contains(err.Error(), "address dst = 7 + r3") {
			t.Errorf("register %d: %v", x, err)
		}
	}
}

func TestOperandsFit(t *testing.T) {
	for op := isa.OpInvalid + 1; op.Known(); op++ {
		if n := len(op.Info().Operands); n > maxOperands {
			t.Errorf("%s has %d operands, more than %d", op, n, maxOperands)
		}
	}
}
