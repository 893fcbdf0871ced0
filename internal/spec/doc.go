// Package spec reads YAML files into structs with tables: one table of fields for each mapping.
// Only the table describes its fields: their form, bounds, defaults, examples and help.
//
// Reading is strict. An unknown field is an error. So is each YAML feature that changes what the
// text seems to say: anchors, aliases, merge keys, tags, tabs and duplicate keys. All findings are
// reported together, each with file, line, column, an excerpt and what to do next.
//
// Values may name environment variables, as ${NAME} or ${NAME:-default}.
package spec
