// Package shape tests the structure of the repository: its folders, the imports between its
// packages, and the length of files and functions. It contains only tests; make lint runs them.
package shape
