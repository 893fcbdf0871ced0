package config

import (
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/spec"
)

// Types that reading a file of any kind uses.
type (
	Error  = spec.Error
	Errors = spec.Errors
	Lookup = spec.Lookup // returns an environment variable, and whether it is set
)

// Pipeline files and manifests of models, from package lang.
type (
	File     = lang.File
	Manifest = lang.Manifest
)

// Kinds are the kinds that pipeline files may name.
type Kinds = lang.Kinds

// Load reads a pipeline file, as lang.Load does.
func Load(path string, kinds Kinds) (*File, error) { return lang.Load(path, kinds) }

// LoadPartly is Load for callers that look for all errors.
func LoadPartly(path string, kinds Kinds) (*File, error) { return lang.LoadPartly(path, kinds) }

// Parse reads the text of a pipeline file in which no environment variable is set.
func Parse(filename string, data []byte, kinds Kinds) (*File, error) {
	return lang.Parse(filename, data, kinds)
}

// ParseWith is Parse with the environment variables that lookup returns.
func ParseWith(filename string, data []byte, lookup Lookup, kinds Kinds) (*File, error) {
	return lang.ParseWith(filename, data, lookup, kinds)
}

// LoadManifest reads the manifest of a model, as lang.LoadManifest does.
func LoadManifest(path string, kinds Kinds) (*Manifest, error) {
	return lang.LoadManifest(path, kinds)
}

// IsManifest reports whether a file is the manifest of a model, valid or not.
func IsManifest(path string) bool { return lang.IsManifest(path) }
