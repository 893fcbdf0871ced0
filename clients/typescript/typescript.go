// Package typescript has the source of the gateway's client for browsers, for
// programs in Go that serve pages with it.
package typescript

import (
	"embed"
	"io/fs"
)

//go:embed src/*.js
var files embed.FS

// Source returns the modules of the client: index.js imports the others.
func Source() fs.FS {
	source, err := fs.Sub(files, "src")
	if err != nil { // of a name that is no path
		panic(err)
	}
	return source
}
