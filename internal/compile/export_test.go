package compile

import (
	"strings"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/model"
)

// Planned is what the golden file of plans says of a pipeline.
type Planned struct {
	Fingerprint generation.Fingerprint
	Text        string   // that decides outputs
	Stages      []string // labels, in order of execution
	Waves       int      // where the stages begin that run wave by wave
	Failure     []string // of stages that give events up: what is done for those, behind their labels
}

// PlanOf compiles a pipeline.
func PlanOf(p lang.Pipeline) (Planned, error) { return PlanOfKinds(p, nil) }

// PlanOfKinds is PlanOf of a pipeline whose models are of kinds.
func PlanOfKinds(p lang.Pipeline, kinds []model.Kind) (Planned, error) {
	made, err := Compile(p, Options{ModelKinds: kinds})
	if err != nil {
		return Planned{}, err
	}
	defer made.Close()
	planned := Planned{Fingerprint: made.Plan.Fingerprint, Text: made.Canonical, Waves: made.Plan.Waves}
	for i := range made.Plan.Stages {
		stage := &made.Plan.Stages[i]
		planned.Stages = append(planned.Stages, stage.Label())
		var done []string
		for k := range stage.OnFailure() {
			done = append(done, stage.OnFailure()[k].Label())
		}
		if done != nil {
			planned.Failure = append(planned.Failure, stage.Label()+": "+strings.Join(done, ", "))
		}
	}
	return planned, nil
}

// Watch compiles a pipeline. watch runs each pass, or part of one, and gets what it reads.
func Watch(p lang.Pipeline, kinds []model.Kind, watch func(pass Pass, reads []any, run func())) error {
	made, err := Compile(p, Options{ModelKinds: kinds, watch: watch})
	if err == nil {
		made.Close()
	}
	return err
}
