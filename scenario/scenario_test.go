package scenario_test

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/afterbay/afterbay/scenario"
)

var update = flag.Bool("update", false, "write what happens into the scenario files")

func TestScenariosHappenAsTheyAreWritten(t *testing.T) {
	files, err := filepath.Glob("*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			scenario.Test(t, file, scenario.Options{Update: *update})
		})
	}
}
