package spec

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// A URL has two parts: the address of a server, and the request to it. Only the second decides
// outputs: the path, such as the name of a model or a database, and the query.

// targetFrom returns where the path or the query of a URL begins.
func targetFrom(url string) (from int) {
	if at := strings.Index(url, "://"); at >= 0 {
		from = at + len("://")
	}
	if at := strings.IndexAny(url[from:], "/?#"); at >= 0 {
		return from + at
	}
	return len(url)
}

// target returns the canonical form of the path and query of a URL.
func target(rest string) string {
	rest, _, _ = strings.Cut(rest, "#")
	if strings.HasPrefix(rest, "/") {
		return rest
	}
	return "/" + rest
}

// PathOf returns a form for URLs. Only the path of the URL decides outputs.
func PathOf(f Form[string]) Form[string] {
	return As(func(url string) string {
		if url == "" {
			return ""
		}
		path, _, _ := strings.Cut(url[targetFrom(url):], "?")
		return target(path)
	}, f)
}

// TargetOf returns a form for URLs. Only the path and the query decide outputs; asWritten describes
// the handling of variables.
func TargetOf[T any](text, written func(*T) *string) Form[T] {
	return asWritten(ReadURL, text, written, targetFrom, target)
}

// ReadHeaders reads headers in any order. asWritten describes the handling of variables.
var ReadHeaders = AnyOrder(headerName, Named(headerName, asWritten(TextOf("the value of a header"),
	func(h *Header) *string { return &h.Value }, func(h *Header) *string { return &h.Written }, func(string) int { return 0 }, func(part string) string { return part })))

func headerName(h *Header) *string { return &h.Name }

// asWritten returns a form for texts with only a part, from a byte on, that decides outputs. A
// variable in that part is most likely a secret, so its name decides and not its value. written
// returns where to keep that part as the file has it, if it has variables. one returns the
// canonical form of a part.
func asWritten[T any](f Form[string], text, written func(*T) *string, from func(text string) int, one func(part string) string) Form[T] {
	made := Into(text, f)
	read, printed := made.Read, f.Print
	made.Read = func(r *Reader, n *Node, path string, into *T) {
		read(r, n, path, into)
		*written(into) = r.Written(n, from(*text(into)))
	}
	made.Print = func(p *Printer, path string, v *T) {
		part := *text(v)
		if part != "" {
			part = one(cmp.Or(*written(v), part[from(part):]))
		}
		printed(p, path, &part)
	}
	return made
}

// Program returns a form for commands that prints the base name of the program: its folder decides
// nothing.
func Program(f Form[[]string]) Form[[]string] {
	inner := f.Print
	f.Print = func(p *Printer, at string, command *[]string) {
		if len(*command) > 0 {
			named := slices.Clone(*command)
			named[0] = path.Base(named[0])
			command = &named
		}
		inner(p, at, command)
	}
	return f
}
