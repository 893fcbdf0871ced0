package spec

import (
	"io"
	"os"
	"path/filepath"
)

// ReadFile reads at most one byte more than the size limit of a pipeline file, so that the caller
// can detect a larger file.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxBytes+1))
}

// Beside joins relative paths with the folder of the file at path.
func Beside(path string, files ...*string) {
	for _, file := range files {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(filepath.Dir(path), *file)
		}
	}
}
