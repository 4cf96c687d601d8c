package sequence

import (
	"fmt"

	"situ/backend/pim/isa"
)

// Fault says where in a program an error occurred.
func Fault(p *isa.Program, stream string, cluster int, st *Step, err error) error {
	layer := ""
	if st.Layer >= 0 && int(st.Layer) < len(p.Layers) {
		layer = ", layer " + p.Layers[st.Layer].Name
	}
	return fmt.Errorf("cluster %d, %s instruction %d (%s%s): %w", cluster, stream, st.Index, st.Op, layer, err)
}
