// Package shape tests the shape of the repository: its folders, which package imports which, and the length of files
// and functions. It has no code but tests; make lint runs them.
package shape
