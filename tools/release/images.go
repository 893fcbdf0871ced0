package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	registry "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user runs the program in an image. Kubernetes checks the number (runAsNonRoot).
const user = 65532

// cache is a folder in images. afterbay looks for ONNX Runtime there.
const cache = "usr/lib/afterbay"

// images writes two images, each for amd64 and arm64, as archives of OCI layouts:
// afterbay has one static program; afterbay-onnx also has ONNX Runtime, the
// program that holds it, and the libraries of Debian that both need.
func (r *release) images(programs []program) error {
	for _, name := range names {
		index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
		for _, p := range platforms {
			if p.os != "linux" {
				continue
			}
			image, err := r.image(name, of(programs, p), p)
			if err != nil {
				return fmt.Errorf("image %s of %s: %w", name, p, err)
			}
			index = mutate.AppendManifests(index, mutate.IndexAddendum{
				Add: image, Descriptor: registry.Descriptor{Platform: &registry.Platform{OS: p.os, Architecture: p.arch}},
			})
		}
		if err := r.writeImages(name, index); err != nil {
			return err
		}
	}
	return nil
}

// image builds an image of one platform, with the libraries in a layer below the programs.
func (r *release) image(name string, programs []program, p platform) (registry.Image, error) {
	system, env := base(), []string{"PATH=/usr/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"}
	if name == "afterbay-onnx" {
		libraries, err := r.libraries(p)
		if err != nil {
			return nil, err
		}
		system = append(system, libraries...)
		env = append(env, "XDG_CACHE_HOME=/"+cache)
	}
	notices, err := r.notices(p)
	if err != nil {
		return nil, err
	}
	own := []file{
		{name: "usr/share/doc/afterbay/LICENSE", from: filepath.Join(r.root, "LICENSE")},
		{name: "usr/share/doc/afterbay/THIRD_PARTY_NOTICES", data: notices.text()},
	}
	for _, each := range programs {
		if each.name == "afterbay" || name == "afterbay-onnx" {
			own = append(own, file{name: "usr/bin/" + each.name, mode: 0o755, from: each.path})
		}
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for i, files := range [][]file{system, own} {
		layer, err := r.layer(files)
		if err != nil {
			return nil, err
		}
		what := []string{"system files", "programs"}[i]
		image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: registry.History{Created: registry.Time{Time: r.time}, CreatedBy: "make release: " + what}})
		if err != nil {
			return nil, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.os, p.arch, registry.Time{Time: r.time}
	config.Config = registry.Config{
		Entrypoint: []string{"/usr/bin/afterbay"}, User: fmt.Sprintf("%d:%d", user, user), Env: env, WorkingDir: "/var/lib/afterbay",
		Volumes: map[string]struct{}{"/var/lib/afterbay": {}}, ExposedPorts: map[string]struct{}{"7070/tcp": {}, "8080/tcp": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title": name, "org.opencontainers.image.version": r.version, "org.opencontainers.image.revision": r.commit,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}

// base are the files that both images have: certificates of authorities, the
// user, a folder for temporary files and one for data, which the user may write.
func base() []file {
	var certificates bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // trusted for old certificates only, which a file of certificates cannot say
		}
		_ = pem.Encode(&certificates, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes all
	}
	return []file{
		{name: "etc/ssl/certs/ca-certificates.crt", data: certificates.Bytes()},
		{name: "etc/passwd", data: fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\nafterbay:x:%d:%d:afterbay:/var/lib/afterbay:/sbin/nologin\n", user, user)},
		{name: "etc/group", data: fmt.Appendf(nil, "root:x:0:\nafterbay:x:%d:\n", user)},
		{name: "tmp", dir: true, mode: 0o1777},
		{name: "var/lib/afterbay", dir: true, mode: 0o750, uid: user},
	}
}

// layer packs files, with the same bytes each time.
func (r *release) layer(files []file) (registry.Layer, error) {
	var packed bytes.Buffer
	if err := writeTar(&packed, files, r.time); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// writeImages writes an OCI layout with one index, and packs it.
func (r *release) writeImages(name string, index registry.ImageIndex) error {
	dir := filepath.Join(r.work, name+"-layout")
	target, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	named := layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": strings.TrimPrefix(r.version, "v"), "io.containerd.image.name": "localhost/" + name + ":" + strings.TrimPrefix(r.version, "v"),
	})
	if err := target.AppendIndex(index, named); err != nil {
		return err
	}
	var files []file
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		files = append(files, file{name: filepath.ToSlash(relative), from: path})
		return err
	})
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(r.out, name+"-image_"+r.version+".tar"))
	if err != nil {
		return err
	}
	return errors.Join(writeTar(f, files, r.time), f.Close())
}

// entries reads a tar archive whole.
func entries(in io.Reader) ([]file, error) {
	var files []file
	archive := tar.NewReader(in)
	for {
		h, err := archive.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		f := file{name: strings.TrimPrefix(strings.TrimPrefix(h.Name, "./"), "/"), mode: h.Mode & 0o7777, uid: h.Uid}
		switch h.Typeflag {
		case tar.TypeDir:
			f.dir = true
		case tar.TypeSymlink:
			f.link = h.Linkname
		case tar.TypeReg:
			if f.data, err = io.ReadAll(archive); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("%s: an entry of type %c", h.Name, h.Typeflag)
		}
		if strings.Trim(f.name, "/") != "" {
			files = append(files, f)
		}
	}
}
