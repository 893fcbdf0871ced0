// Command release builds the files of a release into a folder: archives of the
// programs, software bills of materials, images and the chart. Two builds of a
// commit have equal bytes.
//
//	go -C tools/release run . -version v0.1.0-rc.1 -out ../../dist
//	go -C tools/release run . -check ../../dist
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A release is one version, built from one commit.
type release struct {
	version string    // such as v0.1.0-rc.1
	root    string    // folder of the repository
	out     string    // folder that gets the files
	work    string    // folder for intermediate files, removed at the end
	pgo     string    // auto or off
	commit  string    // in full
	time    time.Time // of the commit; each file has it
}

// versions are those of Semantic Versioning, with a v in front, without build metadata.
var versions = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

func main() {
	log.SetFlags(0)
	log.SetPrefix("release: ")
	version := flag.String("version", "", "version to build, such as v0.1.0-rc.1")
	out := flag.String("out", "../../dist", "folder that gets the files; it is emptied first")
	pgo := flag.String("pgo", "auto", "profile-guided optimisation: auto, or off for a quick trial")
	dirty := flag.Bool("dirty", false, "build also if files differ from the commit, for trials")
	checked := flag.String("check", "", "instead of a build, install and run what this folder holds")
	flag.Parse()
	var err error
	if *checked != "" {
		err = check(*checked)
	} else {
		err = build(*version, *out, *pgo, *dirty)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// build makes all files of a release.
func build(version, out, pgo string, dirty bool) error {
	if !versions.MatchString(version) {
		return fmt.Errorf("version %q: use a version such as v0.1.0-rc.1 (make release VERSION=v0.1.0-rc.1)", version)
	}
	r, err := newRelease(version, out, pgo, dirty)
	if err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	programs, err := r.programs()
	if err != nil {
		return err
	}
	for _, step := range []func([]program) error{r.archives, r.images, r.chart} {
		if err := step(programs); err != nil {
			return err
		}
	}
	return r.sums()
}

// newRelease reads the commit and empties the output folder.
func newRelease(version, out, pgo string, dirty bool) (*release, error) {
	root, err := run("", nil, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	r := &release{version: version, root: root, pgo: pgo}
	if r.out, err = filepath.Abs(out); err != nil {
		return nil, err
	}
	commit, err := run(root, nil, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return nil, err
	}
	hash, seconds, _ := strings.Cut(commit, " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("time of the commit: %w", err)
	}
	r.commit, r.time = hash, time.Unix(unix, 0).UTC()
	changed, err := run(root, nil, "git", "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if changed != "" {
		if !dirty {
			return nil, fmt.Errorf("files differ from the commit: commit or remove them, then build again:\n%s", changed)
		}
		r.commit += "-modified"
	}
	if err := os.RemoveAll(r.out); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return nil, err
	}
	r.work, err = os.MkdirTemp("", "afterbay-release-")
	return r, err
}

// name returns the path of an output file: afterbay_VERSION_SUFFIX.
func (r *release) name(suffix string) string {
	return filepath.Join(r.out, "afterbay_"+r.version+"_"+suffix)
}

// sums writes SHA256SUMS, which sha256sum -c reads.
func (r *release) sums() error {
	files, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, f := range files { // in the order of their names
		sum, size, err := sumOf(filepath.Join(r.out, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sum, f.Name())
		fmt.Printf("%8.1f MB  %s\n", float64(size)/1e6, f.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(text.String()), 0o644)
}

// sumOf returns the SHA-256 digest of a file, and its size in bytes.
func sumOf(path string) ([]byte, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, f)
	return hash.Sum(nil), n, err
}

// run runs a command in a folder and returns its standard output without the
// last line break. Variables are added to those of this process.
func run(dir string, variables []string, name string, args ...string) (string, error) {
	command := exec.Command(name, args...)
	command.Dir, command.Env = dir, append(os.Environ(), variables...)
	out, err := command.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, exit.Stderr)
	}
	return strings.TrimSuffix(string(out), "\n"), err
}
