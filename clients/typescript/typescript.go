// Package typescript contains the source of the gateway client for browsers. Go programs can serve
// it together with their pages.
package typescript

import (
	"embed"
	"io/fs"
)

//go:embed src/*.js
var files embed.FS

// Source returns the JavaScript modules of the client. The entry point is index.js, which imports
// the others.
func Source() fs.FS {
	source, err := fs.Sub(files, "src")
	if err != nil { // only for an invalid path
		panic(err)
	}
	return source
}
