package main

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"strconv"
	"strings"

	"situ/backend/pim"
	"situ/frontend/onnx"
	"situ/ir"
)

// examplesTSV is found by compiling the standard's own tests of single operators:
// TestOperatorExamples of situ/runtime writes and checks it. Its fields are the
// operator, how many tests there are on float32, how many of them are evaluated at
// import, how many compile for PIM and for a GPU, how many do with work left to the
// host, and what they become.
//
//go:embed examples.tsv
var examplesTSV string

type example struct {
	tests, folded, pim, gpu, pimHost, gpuHost int
	kinds                                     []string
}

func readExamples() (map[string]example, error) {
	m := map[string]example{}
	for i, line := range strings.Split(strings.TrimSuffix(examplesTSV, "\n"), "\n") {
		f := strings.Split(line, "\t")
		if len(f) != 8 {
			return nil, fmt.Errorf("examples.tsv:%d: %d fields, want 8", i+1, len(f))
		}
		var e example
		for k, p := range []*int{&e.tests, &e.folded, &e.pim, &e.gpu, &e.pimHost, &e.gpuHost} {
			n, err := strconv.Atoi(f[k+1])
			if err != nil {
				return nil, fmt.Errorf("examples.tsv:%d: %w", i+1, err)
			}
			*p = n
		}
		e.kinds = strings.Fields(f[7])
		m[f[0]] = e
	}
	return m, nil
}

const onnxHead = `# ONNX operators

What the importer takes. An operator outside its range of opsets, a combination of
attributes that has no translation, and any operator that is not listed are refused
by name; nothing is skipped in silence.

The **evaluator** runs whatever the importer takes. **On PIM** and **on
a GPU** say what became of the standard's own tests of the operator on float32 data,
calibrated and compiled for corsair-card and, to kernels, for h100: *yes*, all of
them compile; *some*, as many as stated; *host*, the target has no form for the
operator on these types, or it depends on data, and the [host](counting.md#the-host)
runs it; *no*, none compiles; *at import*, the operator is
evaluated when the model is read and nothing is left to run; –, the
standard has no test of it alone on float32. What decides about a shape is an input in
some of these tests; where it is a constant, as in most models, the operator is evaluated
at import. The last column is what the tests turned
into, in the [operators](ir.md) of the intermediate representation; those in
*italics* have no form on PIM.

The operators of com.microsoft are those that ONNX Runtime's quantiser, optimisers and
model builders write. The standard has no tests of them; those here hold them against
ONNX Runtime. They are spelt out in what the standard's operators become, so that a
target runs them as it runs these: what is between codes (QLinear…) without float32, a
Gelu as one table, a normalisation as one operator. MatMulNBits unpacks its weights,
which are then quantised as those of a float model are. GroupQueryAttention needs to
know how many tokens the cache holds: from a constant seqlens_k, the same for the whole
batch, or where the batch is 1 from total_sequence_length, which exporters take from a
shape. What else it and its kin can ask for, such as buffers that past and present
share under beam search, is refused by name.

| operator | opsets | evaluator | on PIM | on a GPU | becomes |
|---|---|---|---|---|---|
`

// onnxReference writes the table of the operators that Import takes.
func onnxReference(w io.Writer) error {
	examples, err := readExamples()
	if err != nil {
		return err
	}
	lowered := map[string]bool{}
	for _, k := range ir.Kinds() {
		lowered[k.String()] = pim.Lowers(k)
	}
	b := bufio.NewWriter(w)
	b.WriteString(onnxHead)
	for _, o := range onnx.Operators() {
		name, opsets := o.Name, fmt.Sprintf("%d–%d", o.Since, o.Until)
		if o.Until == 0 {
			opsets = fmt.Sprintf("%d and later", o.Since)
		}
		if o.Domain != "ai.onnx" {
			name = o.Domain + "." + name
		}
		var e example
		if strings.HasPrefix(o.Domain, "ai.onnx") { // others may have the name of a standard one
			e = examples[o.Name]
		}
		var kinds []string
		for _, k := range e.kinds {
			mark := "`"
			if !lowered[k] {
				mark = "*"
			}
			kinds = append(kinds, mark+k+mark)
		}
		fmt.Fprintf(b, "| `%s` | %s | yes | %s | %s | %s |\n", name, opsets, e.runs(e.pim, e.pimHost), e.runs(e.gpu, e.gpuHost), strings.Join(kinds, ", "))
	}
	return b.Flush()
}

// runs says whether a target runs an operator of which it takes n tests, and more
// with the host.
func (e example) runs(n, host int) string {
	left := e.tests - e.folded
	switch {
	case e.tests == 0:
		return "–"
	case left == 0:
		return "at import"
	case n == left:
		return "yes"
	case host == left:
		return "host"
	case n+host == 0:
		return "no"
	case n == 0:
		return fmt.Sprintf("host: %d of %d", host, left)
	}
	s := fmt.Sprintf("some: %d of %d", n, left)
	if host > 0 {
		s += fmt.Sprintf(", host: %d", host)
	}
	return s
}
