package task_test

import (
	"testing"

	"github.com/afterbay/afterbay/internal/test/mutants"
)

func TestMutantsOfRepartitioners(t *testing.T) {
	mutants.Check(t, "../..", "testdata/mutants.txt")
}
