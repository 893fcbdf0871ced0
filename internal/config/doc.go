// Package config reads the files that users write: pipelines, manifests of models, gateways, keys
// and tokens. All are YAML, read with the field tables of package spec.
//
// Pipeline files and manifests come from package lang. This package checks only the form of a file.
// The compiler checks names, expressions and models. File.Explain adds positions in the file to the
// compiler's findings.
package config
