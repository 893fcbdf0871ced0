package order_test

import (
	"testing"

	"github.com/afterbay/afterbay/internal/test/mutants"
)

func TestMutantsOfTheOrder(t *testing.T) { mutants.Check(t, "../../..", "testdata/mutants.txt") }
