package model

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// FileBytesMax is the most bytes of a model's file: 1 GiB.
const FileBytesMax = 1 << 30

// ReadFile reads a model's file: one byte more than it may have at most, where it
// grows meanwhile.
func ReadFile(path string) ([]byte, error) {
	about, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !about.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if about.Size() > FileBytesMax {
		return nil, fmt.Errorf("%s has %d bytes, the limit is %d", path, about.Size(), FileBytesMax)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data := bytes.NewBuffer(make([]byte, 0, about.Size()+bytes.MinRead))
	_, err = data.ReadFrom(io.LimitReader(file, FileBytesMax+1))
	return data.Bytes(), err
}
