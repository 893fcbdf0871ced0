// Package zone contains the rules of time zones. They are compiled in, so that a time has the same
// hour of the day on each machine. The zones of the operating system differ between machines and
// change under a process.
package zone

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"time"
)

// Version is the release of the IANA time zone database that the rules come from.
const Version = "2025c"

// data is lib/time/zoneinfo.zip of the Go distribution, byte for byte. Its files are not
// compressed.
//
//go:embed zoneinfo-2025c.zip
var data []byte

// Load returns a zone by its IANA name, such as Europe/Berlin or UTC.
func Load(name string) (*time.Location, error) {
	files, err := open()
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if f.Name != name || f.FileInfo().IsDir() {
			continue
		}
		rules, err := read(f)
		if err != nil {
			return nil, err
		}
		return time.LoadLocationFromTZData(name, rules)
	}
	return nil, fmt.Errorf("%q is not a time zone of the IANA database %s", name, Version)
}

// Names returns the names of all zones, sorted.
func Names() []string {
	files, _ := open()
	names := make([]string, 0, len(files))
	for _, f := range files {
		if !f.FileInfo().IsDir() {
			names = append(names, f.Name)
		}
	}
	return names
}

func open() ([]*zip.File, error) {
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("open the time zones that are compiled in: %w", err)
	}
	return archive.File, nil
}

func read(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("open zone %s: %w", f.Name, err)
	}
	defer func() { _ = r.Close() }()
	rules, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read zone %s: %w", f.Name, err)
	}
	return rules, nil
}
