package ptx

import (
	"flag"
	"os"
	"testing"
)

// TestMain draws fewer cases than rapid does by itself, as there are some two
// hundred properties here, each over 48 threads.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "30"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
