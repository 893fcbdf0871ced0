package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Source is a source of events with its decompressed text.
type Source struct {
	io.Reader
	io.Closer
	Name   string
	Format Format
}

// Open opens a file of events, or standard input for "-". If format is "", Open detects it. The
// caller closes the source.
func Open(path string, format Format, stdin func() io.Reader) (*Source, error) {
	s := &Source{Name: path}
	var source io.ReadCloser
	if path == "-" {
		source, s.Name = io.NopCloser(stdin()), "standard input"
	} else {
		file, err := openFile(path)
		if err != nil {
			return nil, err
		}
		source = file
	}
	s.Closer = source
	var err error
	if s.Reader, s.Format, err = Detect(source, s.Name, format); err != nil {
		return nil, errors.Join(err, source.Close())
	}
	return s, nil
}

// openFile opens a readable file.
func openFile(path string) (*os.File, error) {
	file, err := os.Open(path)
	if errors.As(err, new(*fs.PathError)) {
		return nil, fmt.Errorf("%w: name a file that can be read, or - for standard input", err)
	}
	if err != nil {
		return nil, err
	}
	about, err := file.Stat()
	if err == nil && about.IsDir() {
		err = fmt.Errorf("%s is a directory: name a file", path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// ProducerOf returns the producer id for a file, by its decompressed content. It returns "" for a
// source that cannot be read twice.
func ProducerOf(path, topic string, format Format) (string, error) {
	if about, err := os.Stat(path); err != nil || !about.Mode().IsRegular() {
		return "", err
	}
	source, err := Open(path, format, nil)
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	_, err = io.Copy(digest, source)
	if err = errors.Join(err, source.Close()); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return FileProducer(hex.EncodeToString(digest.Sum(nil)), topic, format), nil
}
