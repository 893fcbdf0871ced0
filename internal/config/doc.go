// Package config reads the files that users write: pipelines, manifests of models,
// gateways, keys and tokens. All are YAML, read by the tables of fields that package
// spec describes.
//
// Pipeline files and manifests are those of package lang. Only the shape of a file is
// checked here. The compiler checks names, expressions and models; File.Explain turns
// its findings into positions in the file.
package config
