package isa

// Functions of binaryi.
const (
	IAdd = iota
	ISub
	IMul
	IDiv
	IMin
	IMax
	IMod
	IRem
	IAnd
	IOr
	IXor
	IEqual
	ILess
	ILessEqual
	NumIFns
)

// Functions of reducei.
const (
	ISum = iota
	IReduceMax
	IReduceMin
	NumIReductions
)

// Compares reports whether a function of binaryi gives bools.
func Compares(fn int64) bool { return fn >= IEqual && fn <= ILessEqual }

// Functions of put.
const (
	PutReplace = iota
	PutAdd
	PutMul
	PutMin
	PutMax
	NumPuts
)
