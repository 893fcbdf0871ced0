// Package compile makes a plan of operators from a pipeline file. It is passes, each a
// function of the values that the passes before it return:
//
//	bind          names are resolved, expressions have types: bound
//	open          models, rows of lookups and content outside of the file: opened
//	check         what needs all of the pipeline: checked, with everything that is wrong
//	schedule      the order of the stages, by their places: order
//	lower         operators, and the plan that they are in
//	fingerprints  what outputs and state depend on
//
// Only open does I/O. It begins before bind, with the models that the file names, and ends
// after it, with what needs the names of steps: where to end is decided by the models that
// are there, if rows alone are wanted. No pass changes what another one returned.
package compile
