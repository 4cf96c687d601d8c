package functional

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"situ/backend/pim/isa"
)

// values draws operands for one execution of an instruction: everything small,
// strides that may leave gaps, sources in the lower half of the scratchpad,
// results in the upper one.
type values struct {
	rng *rand.Rand
	m   *Machine
}

func (v *values) n(lo, hi int64) int64 { return lo + v.rng.Int64N(hi-lo+1) }

const (
	testSrc    = 4096  // sources from here
	testParams = 24576 // parameter blocks from here
	testDst    = 40960 // results from here
)

// params writes n biases (unless none), multipliers and shifts at testParams.
func (v *values) params(n int64, biases bool) int64 {
	at := int64(testParams)
	put := func(x int32) {
		binary.LittleEndian.PutUint32(v.m.clusters[0].sp[at:], uint32(x))
		at += 4
	}
	if biases {
		for range n {
			put(int32(v.n(-5000, 5000)))
		}
	}
	for range n {
		put(int32(v.n(1<<30, 1<<31-1)))
	}
	for range n {
		put(int32(v.n(34, 44)))
	}
	return testParams
}

// strided fills the operands of an n2 × n1 × len access with elements of the
// given sizes for each name.
func (v *values) strided(a map[string]int64, size map[string]int64) {
	a["n2"], a["n1"], a["len"] = v.n(1, 4), v.n(1, 4), v.n(1, 40)
	for name, bytes := range size {
		gap := v.n(0, 2)
		if v.n(0, 1) == 0 {
			gap = 0 // runs that can be merged
		}
		a[name+"_s1"] = a["len"]*bytes + 4*gap
		a[name+"_s2"] = a["n1"]*a[name+"_s1"] + 4*v.n(0, 1)*gap
		a[name] = testSrc + 4*v.n(0, 99)
		if name == "dst" {
			a[name] = testDst + 4*v.n(0, 99)
		}
	}
	if _, float := a["float"]; !float && v.n(0, 3) == 0 && size["b"] == 0 {
		a["len"] = []int64{1, 4}[v.n(0, 1)]
	}
}

func (v *values) draw(op isa.Op) map[string]int64 {
	a := map[string]int64{"zero": v.n(0, 255), "hi": v.n(128, 255), "lo": v.n(0, 127), "zx": v.n(0, 255), "zy": v.n(0, 255),
		"za": v.n(0, 255), "zb": v.n(0, 255), "dst": testDst + 4*v.n(0, 9), "src": testSrc + 4*v.n(0, 9)}
	floats := func(count int64) {
		for i := range count {
			binary.LittleEndian.PutUint32(v.m.clusters[0].sp[testSrc+4*i:], math.Float32bits(float32(v.rng.NormFloat64())))
		}
	}
	switch op {
	case isa.OpFill:
		v.strided(a, map[string]int64{"dst": 1})
		a["value"] = v.n(0, 255)
	case isa.OpCopy:
		v.strided(a, map[string]int64{"dst": 1, "src": 1})
		a["n3"], a["dst_s3"], a["src_s3"] = v.n(1, 3), 2000, 1000
	case isa.OpAdd:
		v.strided(a, map[string]int64{"dst": 1, "a": 1, "b": 1})
		a["ma"], a["mb"], a["shift"], a["b_step"] = v.n(1, 1<<21), v.n(-1<<20, 1<<21), v.n(10, 24), v.n(0, 1)
	case isa.OpMul:
		v.strided(a, map[string]int64{"dst": 1, "a": 1, "b": 1})
		a["m"], a["shift"], a["b_step"] = v.n(1<<30, 1<<31-1), v.n(30, 40), v.n(0, 1)
	case isa.OpLUT:
		v.strided(a, map[string]int64{"dst": 1, "src": 1})
		a["table"] = testParams
	case isa.OpMVM:
		v.mvm(a)
	case isa.OpRequant, isa.OpDequantAcc:
		a["rows_y"], a["rows_x"], a["n"] = v.n(1, 4), v.n(1, 4), v.n(1, 70)
		a["acc_pitch"], a["acc"] = 4*(a["n"]+v.n(0, 3)), 4*v.n(0, 9)
		a["params"] = v.params(a["n"], true)
		size := int64(1)
		if op == isa.OpDequantAcc {
			size = 4
		}
		a["dst_sx"] = size*a["n"] + 4*v.n(0, 2)
		a["dst_sy"] = a["rows_x"]*a["dst_sx"] + 4*v.n(0, 1)
	case isa.OpMaxPool, isa.OpAvgPool, isa.OpDepthwise:
		v.window(op, a)
	case isa.OpShlAcc:
		a["n"], a["acc"], a["by"] = v.n(1, 70), 4*v.n(0, 9), v.n(1, 31)
	case isa.OpBiasAcc:
		a["n"], a["acc"], a["bias"] = v.n(1, 70), 4*v.n(0, 9), testParams
	case isa.OpDot:
		v.dot(a)
	case isa.OpSoftmax:
		a["rows"], a["n"], a["params"] = v.n(1, 3), v.n(1, 600), testParams
		p := v.m.clusters[0].sp[testParams:]
		for d := range 256 {
			binary.LittleEndian.PutUint32(p[4*d:], uint32(math.RoundToEven(math.Exp(-float64(d)*0.05)*(1<<30))))
		}
		binary.LittleEndian.PutUint64(p[1024:], 1<<22)
		binary.LittleEndian.PutUint32(p[1032:], uint32(v.n(0, 20)))
		p[1036], p[1037] = byte(v.n(0, 5)), byte(v.n(200, 255))
	case isa.OpMulAdd:
		a["a"], a["b"], a["c"], a["d"] = testSrc, testSrc+400, testSrc+900, testSrc+1400
		step := int64(1)
		if v.n(0, 2) == 0 {
			step = 2
		}
		for _, d := range []string{"0", "1", "2", "3"} {
			a["n"+d] = v.n(1, 4)
			a["dst_s"+d] = step
			a["a_s"+d], a["b_s"+d], a["c_s"+d], a["d_s"+d] = step*v.n(0, 1), v.n(0, 3), step, v.n(0, 1)
			step *= a["n"+d]
		}
		a["mab"], a["mcd"], a["shift"] = v.n(-1<<30, 1<<30), v.n(-1<<30, 1<<30), v.n(30, 44)
		a["zc"], a["zd"] = v.n(0, 255), v.n(0, 255)
	case isa.OpNorm:
		a["rows"], a["n"], a["params"] = v.n(1, 3), v.n(1, 300), testParams
		p := v.m.clusters[0].sp[testParams:]
		binary.LittleEndian.PutUint64(p, uint64(v.n(0, 1)*v.n(0, 1<<40)))
		binary.LittleEndian.PutUint32(p[8:], uint32(v.n(0, 255)))
		binary.LittleEndian.PutUint32(p[12:], uint32(v.n(0, 255)))
		p[16], p[17], p[18], p[19] = byte(v.n(42, 48)), byte(v.n(0, 5)), byte(v.n(200, 255)), byte(v.n(0, 1))
		for j := range 2 * a["n"] {
			binary.LittleEndian.PutUint32(p[24+4*j:], uint32(v.n(-1<<30, 1<<30)))
		}
	case isa.OpQuant:
		floats(4096)
		a["float"] = 1
		v.strided(a, map[string]int64{"dst": 1, "src": 4})
		a["scale"] = int64(math.Float32bits(0.037))
	case isa.OpDequant:
		a["float"] = 1
		v.strided(a, map[string]int64{"dst": 4, "src": 1})
		a["scale"] = int64(math.Float32bits(0.037))
	case isa.OpUnaryF:
		floats(100)
		a["fn"], a["n"], a["src"] = 3, v.n(1, 90), testSrc
	case isa.OpBinaryF:
		floats(2048)
		a["fn"], a["a"], a["b"] = 1, testSrc, testSrc+400
		step := int64(4)
		for _, d := range []string{"0", "1", "2", "3"} {
			a["n"+d] = v.n(1, 4)
			a["dst_s"+d] = step
			a["a_s"+d], a["b_s"+d] = step*v.n(0, 1), 4*v.n(0, 3)
			step *= a["n"+d]
		}
	case isa.OpSoftmaxF, isa.OpLRNF, isa.OpReduceF:
		floats(2048)
		a["src"], a["fn"], a["log"] = testSrc, 1, v.n(0, 1)
		a["outer"], a["inner"], a["n"], a["c"], a["size"] = v.n(1, 4), v.n(1, 4), v.n(1, 20), v.n(1, 20), v.n(1, 6)
		a["alpha"], a["beta"], a["bias"] = int64(math.Float32bits(0.01)), int64(math.Float32bits(0.75)), int64(math.Float32bits(1))
	default:
		v.drawNumber(op, a, floats)
	}
	return a
}

func (v *values) mvm(a map[string]int64) {
	a["wbits"] = []int64{4, 8}[v.n(0, 1)]
	cols := map[int64]int64{4: 16, 8: 8}[a["wbits"]]
	a["seg_nz"], a["seg_ny"], a["seg_nx"] = v.n(1, 2), v.n(1, 3), v.n(1, 3)
	a["seg_len"] = []int64{v.n(1, 9), 4 * v.n(1, 5), v.n(1, 60), v.n(500, 700)}[v.n(0, 3)]
	if a["seg_len"] > 100 {
		a["seg_nz"], a["seg_ny"], a["seg_nx"] = 1, 1, v.n(1, 2)
	}
	a["seg_sx"] = a["seg_len"] + v.n(0, 1)*v.n(0, 3)
	a["seg_sy"] = a["seg_nx"]*a["seg_sx"] + v.n(0, 1)*v.n(0, 5)
	a["seg_sz"] = a["seg_ny"]*a["seg_sy"] + v.n(0, 2)
	a["rows_y"], a["row_sy"], a["rows_x"], a["row_sx"] = v.n(1, 5), v.n(-9, 300), v.n(1, 9), v.n(0, 30)
	a["ksplit"], a["rsplit"], a["ntiles"] = []int64{1, 2, 4}[v.n(0, 2)], 1, 1
	a["ntiles"] = v.n(1, 4/a["ksplit"])
	if a["ksplit"]*a["ntiles"] <= 2 {
		a["rsplit"] = v.n(1, 2)
	}
	a["n"] = v.n((a["ntiles"]-1)*cols+1, a["ntiles"]*cols)
	if v.n(0, 2) == 0 {
		a["n_sstep"] = v.n(1, 20)
		a["n"] = a["ntiles"] * v.n(1, cols)
	}
	a["accumulate"] = v.n(0, 1)
	a["acc"] = 4 * v.n(0, 20)
	a["ws"] = 128 * v.n(0, 2)
	if a["rows_y"]*a["rows_x"]*a["n"] > 4000 {
		a["rows_y"] = 1
	}
	// The weights it wants.
	a["row0"], a["shifts"] = []int64{0, v.n(0, 15)}[v.n(0, 1)], v.n(0, 1)
	k := a["row0"] + a["seg_nz"]*a["seg_ny"]*a["seg_nx"]*a["seg_len"]
	load := []int64{a["ws"], 0, (k + 15) / 16, a["ntiles"], a["ksplit"], a["rsplit"], a["wbits"], 0, 1, a["shifts"]}
	if err := v.m.clusters[0].exec(isa.OpLoadW, load); err != nil {
		panic(err)
	}
}

func (v *values) window(op isa.Op, a map[string]int64) {
	a["out_h"], a["out_w"], a["c"] = v.n(1, 5), v.n(1, 5), v.n(1, 40)
	a["kh"], a["kw"], a["stride_h"], a["stride_w"] = v.n(1, 4), v.n(1, 4), v.n(1, 3), v.n(1, 3)
	a["dil_h"], a["dil_w"] = v.n(1, 2), v.n(1, 2)
	a["in_h"], a["in_w"] = v.n(1, 9), v.n(1, 9)
	a["y0"], a["x0"] = v.n(-8, 1), v.n(-3, 1)
	a["src_sx"] = a["c"] + v.n(0, 3)
	a["src_sy"] = 20*a["src_sx"] + v.n(0, 3)
	a["dst_sx"] = a["c"] + v.n(0, 3)
	a["dst_sy"] = a["out_w"]*a["dst_sx"] + v.n(0, 3)
	for _, pad := range []string{"pad_t", "pad_l", "pad_b", "pad_r"} {
		a[pad] = v.n(0, 3)
	}
	a["per_count"] = v.n(0, 1)
	switch op {
	case isa.OpAvgPool:
		n := int64(1)
		if a["per_count"] == 1 {
			n = a["kh"] * a["kw"]
		}
		a["params"] = v.params(n, false)
	case isa.OpDepthwise:
		a["params"] = v.params(a["c"], true)
		a["w"] = testParams + 2048
	}
}
