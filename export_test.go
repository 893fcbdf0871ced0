package afterbay

// Planned is what the golden file of plans says of a pipeline.
type Planned struct {
	Outputs, State string   // digests: of what decides the outputs, and what the stored state means
	Stages         []string // labels, in order of execution
	Waves          int      // where the stages begin that run wave by wave
}

// PlanOf compiles a pipeline.
func PlanOf(p Pipeline) (Planned, error) {
	made, err := compile(p, Options{})
	if err != nil {
		return Planned{}, err
	}
	defer closeModels(made.opened)
	planned := Planned{Outputs: made.plan.Digest, State: made.plan.Cells, Waves: made.plan.Waves}
	for i := range made.plan.Stages {
		planned.Stages = append(planned.Stages, made.plan.Stages[i].Label(made.plan.Outputs))
	}
	return planned, nil
}
