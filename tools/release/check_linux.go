package main

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	registry "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// check installs what a folder holds and runs it. The archive of this machine's
// platform runs on a root that has no other file. Each image runs as its user, on its
// root file system.
func check(dir string) error {
	work, err := os.MkdirTemp("", "afterbay-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.Chmod(work, 0o755); err != nil { // the user of the image passes through
		return err
	}
	if _, err := run(dir, nil, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"); err != nil {
		return err
	}
	if err := checkArchive(dir, filepath.Join(work, "bare")); err != nil {
		return err
	}
	for _, name := range names {
		if err := checkImage(dir, name, filepath.Join(work, name)); err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
	}
	return nil
}

// one returns the file that fits a pattern.
func one(pattern string) (string, error) {
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("%s: %d files, not one", pattern, len(found))
	}
	return found[0], nil
}

// checkArchive unpacks the archive of this platform and decides an event with it.
func checkArchive(dir, root string) error {
	began := time.Now()
	path, err := one(filepath.Join(dir, "afterbay_*_linux_"+runtime.GOARCH+".tar.gz"))
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	files, err := entries(zip)
	if err != nil {
		return err
	}
	folder, _, _ := strings.Cut(filepath.Base(path), ".tar.gz")
	files = append(files, file{name: "tmp", dir: true, mode: 0o1777}, file{name: "work", dir: true, mode: 0o750, uid: user})
	if err := lay(root, files); err != nil {
		return err
	}
	for _, name := range []string{"LICENSE", "README.md", "THIRD_PARTY_NOTICES", "completions/afterbay.bash", "completions/_afterbay", "completions/afterbay.fish", "afterbay-onnx"} {
		if info, err := os.Stat(filepath.Join(root, folder, name)); err != nil || info.Size() == 0 {
			return fmt.Errorf("%s is missing or empty: %v", name, err)
		}
	}
	in := inside{root: root, dir: "/work", program: "/" + folder + "/afterbay"}
	if err := in.decide(); err != nil {
		return err
	}
	fmt.Printf("archive: first decision %.1f s after the download\n", time.Since(began).Seconds())
	return nil
}

// checkImage runs the image of this platform, and reads the others.
func checkImage(dir, name, work string) error {
	packed, err := one(filepath.Join(dir, name+"-image_*.tar"))
	if err != nil {
		return err
	}
	f, err := os.Open(packed)
	if err != nil {
		return err
	}
	defer f.Close()
	files, err := entries(f)
	if err != nil {
		return err
	}
	if err := lay(filepath.Join(work, "layout"), files); err != nil {
		return err
	}
	images, err := imagesIn(filepath.Join(work, "layout"))
	if err != nil {
		return err
	}
	if len(images) != 2 {
		return fmt.Errorf("%d images, not 2", len(images))
	}
	for arch, image := range images {
		root := filepath.Join(work, arch)
		content := mutate.Extract(image)
		files, err := entries(content)
		if err := errors.Join(err, content.Close()); err != nil {
			return err
		}
		if err := lay(root, files); err != nil {
			return err
		}
		program, err := elf.Open(filepath.Join(root, "usr/bin/afterbay"))
		if err != nil {
			return err
		}
		machine := program.Machine
		_ = program.Close()
		if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]; machine != want {
			return fmt.Errorf("%s holds a program of %v", arch, machine)
		}
		if arch != runtime.GOARCH {
			continue
		}
		if err := runImage(name, root, image); err != nil {
			return err
		}
	}
	return nil
}

// runImage runs an image as a container engine would, on its root file system.
func runImage(name, root string, image registry.Image) error {
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	if want := fmt.Sprintf("%d:%d", user, user); config.Config.User != want || len(config.Config.Entrypoint) != 1 {
		return fmt.Errorf("user %q, entrypoint %q", config.Config.User, config.Config.Entrypoint)
	}
	in := inside{root: root, dir: config.Config.WorkingDir, program: config.Config.Entrypoint[0], env: config.Config.Env}
	if err := in.decide(); err != nil {
		return err
	}
	fmt.Printf("image %s: an event is decided\n", name)
	if name != "afterbay-onnx" {
		return nil
	}
	return in.score()
}

// score computes a model in ONNX Runtime: the sigmoid of 0 is a half.
func (i inside) score() error {
	folder := strings.TrimPrefix(i.dir, "/") + "/"
	if err := lay(i.root, []file{{name: folder + "model.onnx", data: sigmoid}, {name: folder + "rows.csv", data: []byte("x\n0\n")}}); err != nil {
		return err
	}
	if _, err := i.run("", "model", "add", "model.onnx", "--name", "sigmoid", "--version", "1", "--rows", "rows.csv", "--dir", "models"); err != nil {
		return err
	}
	manifest, err := one(filepath.Join(i.root, folder, "models/sigmoid/1/*.yaml"))
	if err != nil {
		return err
	}
	out, err := i.run("", "model", "score", strings.TrimPrefix(manifest, i.root), "rows.csv")
	if err != nil {
		return err
	}
	if !strings.Contains(out, "0.5") {
		return fmt.Errorf("the model says %q", out)
	}
	fmt.Println("ONNX Runtime scores a model")
	return nil
}

// sigmoid is a model of one node, which reads x and writes y.
//
//go:embed testdata/sigmoid.onnx
var sigmoid []byte

// imagesIn returns the images of a layout by architecture.
func imagesIn(dir string) (map[string]registry.Image, error) {
	all, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	outer, err := all.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(outer.Manifests) != 1 {
		return nil, fmt.Errorf("the layout names %d images, not one", len(outer.Manifests))
	}
	index, err := all.ImageIndex(outer.Manifests[0].Digest)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	images := map[string]registry.Image{}
	for _, m := range manifest.Manifests {
		if images[m.Platform.Architecture], err = index.Image(m.Digest); err != nil {
			return nil, err
		}
	}
	return images, nil
}

// lay writes files under a root, with their modes and, for root, their owners.
func lay(root string, files []file) error {
	for _, f := range withFolders(files) {
		path := filepath.Join(root, filepath.FromSlash(f.name))
		if !strings.HasPrefix(path, root+string(filepath.Separator)) {
			return fmt.Errorf("%s leaves the root", f.name)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		err := error(nil)
		switch {
		case f.dir:
			if f.mode == 0 {
				f.mode = 0o755
			}
			err = os.MkdirAll(path, 0o755)
		case f.link != "":
			err = os.Symlink(f.link, path)
		default:
			err = layFile(path, f)
		}
		if err == nil && f.link == "" && f.mode != 0 {
			err = syscall.Chmod(path, uint32(f.mode))
		}
		if err == nil && f.uid != 0 && os.Geteuid() == 0 {
			err = os.Chown(path, f.uid, f.uid)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

func layFile(path string, f file) error {
	if f.from != "" {
		data, err := os.ReadFile(f.from)
		if err != nil {
			return err
		}
		f.data = data
	}
	return os.WriteFile(path, f.data, 0o644)
}

// inside runs a program with a folder as its root, as the user of images.
type inside struct {
	root, dir, program string
	env                []string
}

// run returns what a command prints. Without root rights it needs user namespaces.
func (i inside) run(stdin string, args ...string) (string, error) {
	command := exec.Command(i.program, args...)
	command.Dir, command.Env, command.Stdin = i.dir, append([]string{"HOME=" + i.dir}, i.env...), strings.NewReader(stdin)
	command.SysProcAttr = &syscall.SysProcAttr{Chroot: i.root, Credential: &syscall.Credential{Uid: user, Gid: user}}
	if os.Geteuid() != 0 {
		command.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getuid(), Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getgid(), Size: 1}}
		command.SysProcAttr.Credential.NoSetGroups = true
	}
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("afterbay %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

const (
	pipeline = `pipeline: payments
input: {topic: payments, key: customer, fields: {tx: string, customer: string, amount: number}}
steps:
  - features: {spent: {value: amount, last: 3, aggregates: [sum]}}
  - decide: {action: 'spent.sum > 100 ? "review" : "allow"'}
  - emit: {topic: decisions, value: [tx, action]}
`
	events = `{"tx":"1","customer":"ann","amount":60}
{"tx":"2","customer":"ben","amount":70}
{"tx":"3","customer":"ann","amount":50}
`
	decisions = `{"tx":"1","action":"allow"}
{"tx":"2","action":"allow"}
{"tx":"3","action":"review"}
`
)

// decide runs a pipeline and compares its decisions.
func (i inside) decide() error {
	version, err := i.run("", "version")
	if err != nil {
		return err
	}
	fmt.Print(version)
	if err := lay(i.root, []file{{name: strings.TrimPrefix(i.dir, "/") + "/pipeline.yaml", data: []byte(pipeline)}}); err != nil {
		return err
	}
	if _, err := i.run(events, "produce", "payments", "-", "--partitions", "1", "--key", "customer"); err != nil {
		return err
	}
	if _, err := i.run("", "run", "pipeline.yaml", "--until-idle", "--listen", "none"); err != nil {
		return err
	}
	got, err := i.run("", "tail", "decisions")
	if err != nil {
		return err
	}
	if got != decisions {
		return fmt.Errorf("decisions are\n%s, want\n%s", got, decisions)
	}
	return nil
}
