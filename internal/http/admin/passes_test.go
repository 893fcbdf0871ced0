package admin_test

import (
	"regexp"
	"testing"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
)

// TestEveryPassOfTheCompilerIsMeasured reads a time above zero for each pass.
func TestEveryPassOfTheCompilerIsMeasured(t *testing.T) {
	runner, err := builtin.New(lang.Pipeline{
		Name:  "p",
		Input: lang.Input{Topic: "in", Key: "k", Fields: []lang.Field{{Name: "k", Type: "string"}}},
		Steps: []lang.Step{&steps.Emit{Topic: "out", Names: []string{"k"}}},
	}, running.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	log := memory.New(memory.Options{})
	defer log.Close()
	_, url := start(t, log, admin.Options{Runners: []*running.Runner{runner}})
	_, metrics := get(t, url+"/metrics")
	for _, pass := range []string{"bind", "open", "check", "schedule", "lower", "fingerprints"} {
		of := regexp.MustCompile(`(?m)^afterbay_compile_seconds\{pass="` + pass + `",pipeline="p"\} (\S+)$`).FindStringSubmatch(metrics)
		if of == nil || of[1] == "0" {
			t.Errorf("pass %s: %q", pass, of)
		}
	}
}
