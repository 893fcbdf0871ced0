// Package lang is the language of pipeline files: the structs that a file becomes, and
// the tables of their fields. It reads pipeline files and the manifests of models.
//
// It checks the shape of a file alone. The compiler checks names, expressions and
// models, and File.Explain turns its findings into positions in the file.
package lang
