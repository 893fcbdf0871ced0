// Package spec reads files of YAML into structs by tables: one table of fields for
// each mapping. A table is the only place that knows its fields: how they are
// written, their bounds, defaults, examples and help.
//
// Reading is strict. An unknown field is an error, and so is everything of YAML that
// changes what the text seems to say: anchors, aliases, merge keys, tags, tabs, a key
// written twice. All findings are reported at once, each with file, line, column, an
// excerpt and what to do next.
//
// Values may name environment variables, as ${NAME} or ${NAME:-default}.
package spec
