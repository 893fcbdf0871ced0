package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// A file is one entry of an archive or of an image.
type file struct {
	name string // slash-separated, without a slash in front
	mode int64  // permission bits; 0 is 0644, or 0755 for a folder
	data []byte
	from string // a file on disk that has the data instead
	dir  bool   // a folder
	link string // target of a symbolic link
	uid  int    // owner and group
}

// writeTar writes files as a tar archive. Its bytes depend on nothing else than
// the files and the time: files are sorted, folders above them are added.
func writeTar(w io.Writer, files []file, at time.Time) error {
	out := tar.NewWriter(w)
	for _, f := range withFolders(files) {
		if err := writeEntry(out, f, at); err != nil {
			return err
		}
	}
	return out.Close()
}

// withFolders adds the folders that no file names, and sorts. A later file
// replaces an earlier one of the same name.
func withFolders(files []file) []file {
	byName := map[string]file{}
	for _, f := range files {
		f.name = strings.TrimSuffix(f.name, "/")
		for dir := path.Dir(f.name); dir != "."; dir = path.Dir(dir) {
			if _, named := byName[dir]; !named {
				byName[dir] = file{name: dir, dir: true}
			}
		}
		byName[f.name] = f
	}
	sorted := make([]file, 0, len(byName))
	for _, f := range byName {
		sorted = append(sorted, f)
	}
	slices.SortFunc(sorted, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return sorted
}

func writeEntry(out *tar.Writer, f file, at time.Time) error {
	header := &tar.Header{Name: f.name, Mode: f.mode, ModTime: at, Uid: f.uid, Gid: f.uid, Format: tar.FormatPAX}
	switch {
	case f.dir:
		header.Typeflag, header.Name = tar.TypeDir, f.name+"/"
		if f.mode == 0 {
			header.Mode = 0o755
		}
		return out.WriteHeader(header)
	case f.link != "":
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, f.link, 0o777
		return out.WriteHeader(header)
	}
	if f.from != "" {
		data, err := os.ReadFile(f.from)
		if err != nil {
			return err
		}
		f.data = data
	}
	header.Typeflag, header.Size = tar.TypeReg, int64(len(f.data))
	if f.mode == 0 {
		header.Mode = 0o644
	}
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	_, err := out.Write(f.data)
	return err
}

// writeTarGz writes files as a .tar.gz file at a path. The header of gzip has no name and no time.
func writeTarGz(target string, files []file, at time.Time) (err error) {
	f, err := os.Create(target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	zip, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := writeTar(zip, files, at); err != nil {
		return err
	}
	return zip.Close()
}
