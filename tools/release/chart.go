package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// chart packs the Helm chart. Its version and that of the images are the release's, without the v.
func (r *release) chart([]program) error {
	version := strings.TrimPrefix(r.version, "v")
	dir := filepath.Join(r.root, "deploy/helm/afterbay")
	var files []file
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil || strings.HasPrefix(relative, "ci"+string(filepath.Separator)) { // values of tests
			return err
		}
		text, err := os.ReadFile(path)
		if relative == "Chart.yaml" {
			text = versionLines.ReplaceAll(text, []byte("$1: "+version))
		}
		files = append(files, file{name: "afterbay/" + filepath.ToSlash(relative), data: text})
		return err
	})
	if err != nil {
		return err
	}
	return writeTarGz(filepath.Join(r.out, "afterbay-"+version+".tgz"), files, r.time)
}

var versionLines = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)
