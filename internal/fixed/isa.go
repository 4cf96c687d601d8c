package fixed

import "os"

// isa is a level of instruction set; a higher one includes the lower.
type isa int

const (
	isaPortable isa = iota // plain Go
	isaAVX2                // AVX2
	isaAVX512              // AVX-512 F, BW, DQ, VL, VNNI and VBMI
)

var isaNames = [...]string{"portable", "avx2", "avx512"}

// active is the level the kernels run at. It is set once at start-up; only
// tests change it.
var active = chooseISA(os.Getenv("SITU_ISA"), bestISA())

// ISA names the instruction set in use: "avx512", "avx2" or "portable". The
// best one of the machine is taken; the environment variable SITU_ISA, set to
// one of these names, forces a lower one. A name the machine cannot honour, or
// an unknown name, leaves the best one in use.
func ISA() string { return isaNames[active] }

func chooseISA(want string, best isa) isa {
	for i, name := range isaNames {
		if name == want && isa(i) <= best {
			return isa(i)
		}
	}
	return best
}
