package lang

// AllSteps returns the kinds of steps, in the order of the reference page.
func AllSteps() []*StepKind {
	return []*StepKind{
		&letKind, &featuresKind, &lookupKind, &scoreKind, &callKind, &routeKind, &groupKind, &decideKind, &emitKind, &fetchKind,
	}
}
