// Package config reads the pipeline file: YAML, one pipeline a document, into
// afterbay.Pipeline values.
//
// It is strict. A word that is not known, or not built, is an error, and so is
// everything of YAML that changes what the text seems to say: anchors, aliases,
// merge keys, tags, tabs, a key written twice. Every finding is reported at
// once, each with file, line, column, an excerpt and what to do next.
//
// Environment variables are named in values, as ${NAME} or ${NAME:-default}.
//
// Only the shape of the file is checked here. Names, expressions and models are
// checked by whoever compiles the pipeline; File.Explain turns those findings
// into positions in the file.
package config
