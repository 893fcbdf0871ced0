package model

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

const fileBytesMax = 1 << 30

// ReadFile reads a model file of at most 1 GiB. If the file grows during the read, ReadFile reads
// at most one byte more.
func ReadFile(path string) ([]byte, error) {
	about, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !about.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if about.Size() > fileBytesMax {
		return nil, fmt.Errorf("%s has %d bytes, the limit is %d", path, about.Size(), fileBytesMax)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data := bytes.NewBuffer(make([]byte, 0, about.Size()+bytes.MinRead))
	_, err = data.ReadFrom(io.LimitReader(file, fileBytesMax+1))
	return data.Bytes(), err
}
