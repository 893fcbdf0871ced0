// Package compile makes a plan of operators from a pipeline file. It runs passes. Each pass is a
// function of the values that the passes before it return:
//
//	bind          resolves names and types expressions: bound
//	open          opens models, rows of lookups and content outside the file: opened
//	check         checks the whole pipeline: checked, with all errors
//	schedule      orders the stages by their places: order
//	lower         makes operators, and the plan that contains them
//	fingerprints  computes the fingerprints of outputs and state
//
// Only open does I/O. It begins before bind, with the models that the file names. It ends after
// bind, with the resources that need the names of steps. If only rows are wanted, the open models
// decide where binding ends. No pass changes a value of another pass.
package compile
