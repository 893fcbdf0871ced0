package scenario_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/scenario"
)

// TestCookbookHappensAsItIsWritten runs the recipes of the documentation: a file each, of at
// most 25 lines, with a scenario that uses it and a row of the table.
func TestCookbookHappensAsItIsWritten(t *testing.T) {
	const folder = "../docs/cookbook/"
	page, err := os.ReadFile(folder + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	scenarios, _ := filepath.Glob(folder + "*.txt")
	var all []byte
	for _, file := range scenarios {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			scenario.Test(t, file, scenario.Options{Update: *update})
		})
	}
	recipes, _ := filepath.Glob(folder + "*.yaml")
	if len(recipes) == 0 {
		t.Fatal("no recipes")
	}
	for _, file := range recipes {
		name := filepath.Base(file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n > 25 {
			t.Errorf("%s has %d lines: a recipe has at most 25", name, n)
		}
		if !bytes.Contains(all, []byte("pipeline "+name+"\n")) {
			t.Errorf("no scenario runs %s", name)
		}
		if !bytes.Contains(page, []byte("("+name+")")) {
			t.Errorf("README.md does not name %s", name)
		}
	}
}
