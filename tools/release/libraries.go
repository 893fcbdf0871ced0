package main

import (
	"archive/zip"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/afterbay/afterbay/internal/models/onnx"
)

// pins lists the packages of Debian in the image with glibc: architecture, name, version, SHA-256.
//
//go:embed debian.txt
var pins string

// libraries returns what ONNX Runtime needs, and ONNX Runtime, for one platform.
// apt and pip fetch the packages, from wherever they are told to look.
func (r *release) libraries(p platform) ([]file, error) {
	files, err := r.debian(p)
	if err != nil {
		return nil, err
	}
	runtime, err := r.runtime(p)
	if err != nil {
		return nil, fmt.Errorf("ONNX Runtime: %w", err)
	}
	return append(files, runtime...), nil
}

// debian returns the files of the pinned packages. apt works on folders of its
// own, so it fetches for each architecture and installs nothing.
func (r *release) debian(p platform) ([]file, error) {
	dir := filepath.Join(r.work, "debian-"+p.arch)
	for _, folder := range []string{"state/lists/partial", "cache/archives/partial", "packages"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "status"), nil, 0o644); err != nil {
		return nil, err
	}
	apt := []string{
		"-qq", "-o", "Dir::State=" + dir + "/state", "-o", "Dir::State::status=" + dir + "/status", "-o", "Dir::Cache=" + dir + "/cache",
		"-o", "APT::Architecture=" + p.arch, "-o", "APT::Architectures=" + p.arch, "-o", "APT::Sandbox::User=root",
	}
	if _, err := run(dir, nil, "apt-get", append(apt, "update")...); err != nil {
		return nil, err
	}
	var files []file
	for line := range strings.Lines(pins) {
		pin := strings.Fields(line)
		if len(pin) != 4 || pin[0] != p.arch {
			continue
		}
		if _, err := run(filepath.Join(dir, "packages"), nil, "apt-get", append(apt, "download", pin[1]+"="+pin[2])...); err != nil {
			return nil, fmt.Errorf("%w: apt has no such version: use the release of Debian that debian.txt names, and pin its newest versions", err)
		}
		found, err := filepath.Glob(filepath.Join(dir, "packages", pin[1]+"_*.deb"))
		if err != nil || len(found) != 1 {
			return nil, fmt.Errorf("%s: %d files, %w", pin[1], len(found), err)
		}
		sum, _, err := sumOf(found[0])
		if err != nil {
			return nil, err
		}
		if got := fmt.Sprintf("%x", sum); got != pin[3] {
			return nil, fmt.Errorf("%s %s has the SHA-256 %s, debian.txt has %s", pin[1], pin[2], got, pin[3])
		}
		unpacked, err := unpackDebian(found[0], pin[1])
		if err != nil {
			return nil, err
		}
		files = append(files, unpacked...)
	}
	return files, nil
}

// unpackDebian returns the files of a package that run or state a licence, and its record, which scanners of images read.
func unpackDebian(path, name string) ([]file, error) {
	control, err := run("", nil, "dpkg-deb", "--field", path)
	if err != nil {
		return nil, err
	}
	unpack := exec.Command("dpkg-deb", "--fsys-tarfile", path)
	out, err := unpack.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := unpack.Start(); err != nil {
		return nil, err
	}
	all, err := entries(out)
	if err := errors.Join(err, unpack.Wait()); err != nil {
		return nil, err
	}
	files := []file{{name: "var/lib/dpkg/status.d/" + name, data: []byte(control + "\n")}}
	for _, f := range all {
		documents := strings.HasPrefix(f.name, "usr/share/") && !strings.HasSuffix(f.name, "/copyright")
		if f.dir || documents || strings.Contains(f.name, "/gconv/") { // conversions of character sets, which no program here uses
			continue
		}
		files = append(files, f)
	}
	return files, nil
}

// runtime returns the library of ONNX Runtime, out of the wheel that pip fetches,
// at the place where afterbay model runtime puts it.
func (r *release) runtime(p platform) ([]file, error) {
	digest, tag := onnx.Pinned(p.os, p.arch)
	dir := filepath.Join(r.work, "wheel-"+p.arch)
	_, err := run("", nil, "python3", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
		"--platform", tag, "--python-version", "3.12", "--implementation", "cp", "--dest", dir, "onnxruntime=="+onnx.RuntimeVersion)
	if err != nil {
		return nil, err
	}
	wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(wheels) != 1 {
		return nil, fmt.Errorf("pip left %d wheels, %w", len(wheels), err)
	}
	archive, err := zip.OpenReader(wheels[0])
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	var files []file
	found := false
	for _, member := range archive.File {
		to := ""
		switch {
		case strings.HasPrefix(member.Name, "onnxruntime/capi/libonnxruntime.so") && member.UncompressedSize64 > 0:
			to = cache + "/afterbay/onnxruntime/" + digest + "/libonnxruntime"
		case member.Name == "onnxruntime/LICENSE", member.Name == "onnxruntime/ThirdPartyNotices.txt":
			to = "usr/share/doc/onnxruntime/" + filepath.Base(member.Name)
		default:
			continue
		}
		content, err := member.Open()
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(content)
		if err := errors.Join(err, content.Close()); err != nil {
			return nil, err
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(data)); strings.HasPrefix(to, cache) {
			if found = got == digest; !found {
				return nil, fmt.Errorf("%s has the SHA-256 %s, want %s", member.Name, got, digest)
			}
		}
		files = append(files, file{name: to, data: data})
	}
	if !found {
		return nil, fmt.Errorf("%s holds no libonnxruntime.so", wheels[0])
	}
	return files, nil
}
