// Package lang defines the language of pipeline files: the structs that a file is read into, and
// the tables of their fields. It reads pipeline files and the manifests of models.
//
// The package checks only the form of a file. The compiler checks names, expressions and models.
// File.Explain adds positions in the file to the compiler's findings.
package lang
