package spec

import (
	"io"
	"os"
	"path/filepath"
)

// ReadFile reads one byte more than a pipeline file may have, at most.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxBytes+1))
}

// Beside joins the paths of files that are relative to the folder of the file at path
// with that folder.
func Beside(path string, files ...*string) {
	for _, file := range files {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(filepath.Dir(path), *file)
		}
	}
}
