package pipeline

import (
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/model"
)

// Planned is what the golden file of plans says of a pipeline.
type Planned struct {
	Fingerprint generation.Fingerprint
	Text        string   // that decides outputs
	Stages      []string // labels, in order of execution
	Waves       int      // where the stages begin that run wave by wave
}

// PlanOf compiles a pipeline.
func PlanOf(p Pipeline) (Planned, error) { return PlanOfKinds(p, nil) }

// PlanOfKinds is PlanOf of a pipeline whose models are of kinds.
func PlanOfKinds(p Pipeline, kinds []model.Kind) (Planned, error) {
	made, err := compile(p, Options{ModelKinds: kinds})
	if err != nil {
		return Planned{}, err
	}
	defer closeModels(made.opened)
	planned := Planned{Fingerprint: made.plan.Fingerprint, Text: made.canonical, Waves: made.plan.Waves}
	for i := range made.plan.Stages {
		planned.Stages = append(planned.Stages, made.plan.Stages[i].Label())
	}
	return planned, nil
}
