package spec

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// A URL says where a server is, and what it is asked for. Only the second decides
// outputs: the path, such as the name of a model or a database, and the query of a
// request.

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

// target returns the one form of what follows the host of a URL: its path and query.
func target(rest string) string {
	rest, _, _ = strings.Cut(rest, "#")
	if strings.HasPrefix(rest, "/") {
		return rest
	}
	return "/" + rest
}

// PathOf is a form of URLs of which the path alone decides outputs.
func PathOf(f Form[string]) Form[string] {
	return As(func(url string) string {
		if url == "" {
			return ""
		}
		path, _, _ := strings.Cut(url[targetFrom(url):], "?")
		return target(path)
	}, f)
}

// TargetOf is a form of URLs of which the path and the query decide outputs, with
// variables as asWritten says.
func TargetOf[T any](text, written func(*T) *string) Form[T] {
	return asWritten(ReadURL, text, written, targetFrom, target)
}

// ReadHeaders reads headers. Their order says nothing, and variables are as asWritten says.
var ReadHeaders = AnyOrder(headerName, Named(headerName, asWritten(TextOf("the value of a header"),
	func(h *Header) *string { return &h.Value }, func(h *Header) *string { return &h.Written }, func(string) int { return 0 }, func(part string) string { return part })))

func headerName(h *Header) *string { return &h.Name }

// asWritten is a form of texts of which a part decides outputs, from a byte on. A variable
// in that part is most likely a key, so it counts by its name: written is where the part
// is kept as the file has it, if it has variables. one returns the one form of a part.
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

// Program returns a command with the name of its program alone: the folder that it is in
// decides nothing.
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
