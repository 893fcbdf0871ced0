package compile_test

import (
	"os"
	"testing"
)

// TestMain runs the tests in the root of the repository: they name files by their paths in it.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
