package spec

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/afterbay/afterbay/internal/event/expression"
)

// Forms of fields that several kinds of files share.
var (
	ReadName       = TextOf("a name")
	ReadExpression = Reads(expression.Rename, TextOf("an expression"))
	ReadType       = As(OneSpace, TextOf("a type such as string, int, number or optional string"))
	ReadURL        = TextOf("a URL")
	ReadAddress    = address()
	ReadPath       = filePath()
	ReadDigest     = digest()
)

// OneSpace returns the text of a type with single spaces between its words.
func OneSpace(text string) string { return strings.Join(strings.Fields(text), " ") }

var aPassword = regexp.MustCompile(`://[^/@]*:([^/]+)@`)

// address reads the URL of a server. Only an environment variable may hold its password.
func address() Form[string] {
	const hint = "write ${NAME} for it or for the whole URL, and export NAME=..."
	return Form[string]{Read: func(r *Reader, n *Node, path string, into *string) {
		if said := aPassword.FindStringSubmatch(n.Text); n.Kind == Scalar && said != nil && !AVariable.MatchString(said[1]) && !r.Full() {
			found := r.Source.ErrorAt(n.Offset, path, "a password has no place in the file", hint)
			found.Excerpt = ""
			r.Errors = append(r.Errors, found)
			return
		}
		ReadURL.Read(r, n, path, into)
	}, Print: ReadURL.Print, Shape: ReadURL.Shape}
}

// filePath reads the path of a file, relative to the folder of the file that names it.
func filePath() Form[string] {
	f := TextOf("the path of a file")
	return Form[string]{Read: func(r *Reader, n *Node, path string, into *string) {
		f.Read(r, n, path, into)
		*into = inFolder(r.Folder, *into)
	}, Print: f.Print, Shape: f.Shape}
}

// inFolder joins a relative path with a folder, unless the folder is empty.
func inFolder(folder, path string) string {
	if folder != "" {
		Beside(filepath.Join(folder, "_"), &path)
	}
	return path
}

// fileOfPath returns the base name of a path, for fingerprints: the folder only says where the file
// is.
func fileOfPath(path string) string {
	if path == "" {
		return ""
	}
	return filepath.Base(path)
}

// HexDigest matches a sha256.
var HexDigest = regexp.MustCompile(`^(sha256:)?[0-9a-f]{64}$`)

// digest reads a sha256.
func digest() Form[string] {
	f := TextOf("the sha256 of the file, 64 hex digits")
	return Form[string]{Read: func(r *Reader, n *Node, path string, into *string) {
		f.Read(r, n, path, into)
		if *into != "" && !HexDigest.MatchString(*into) {
			r.Fail(n.Offset, path, Shorten(*into)+" is not a sha256", "write the 64 hex digits that sha256sum prints of the file")
		}
		*into = strings.TrimPrefix(*into, "sha256:")
	}, Print: f.Print, Shape: f.Shape}
}
