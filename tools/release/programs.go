package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// bytesMax bounds each program, stripped. The linker drops unused methods only
// while no linked code looks methods up by a name that is known at run time. One
// such call makes afterbay three times its size: see docs/adr/0053-release.md.
const bytesMax = 64e6

// names are the programs of each platform.
var names = []string{"afterbay", "afterbay-onnx"}

// platforms are those that a release has programs for.
var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "_" + p.arch }

// env returns the variables that choose the platform. Settings of the machine do not count.
func (p platform) env() []string {
	return []string{"GOOS=" + p.os, "GOARCH=" + p.arch, "GOAMD64=v1", "GOARM64=v8.0", "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off"}
}

// A program is built for one platform.
type program struct {
	platform platform
	name     string
	path     string
}

// of returns the programs of a platform.
func of(programs []program, p platform) []program {
	return slices.DeleteFunc(slices.Clone(programs), func(each program) bool { return each.platform != p })
}

// programs builds each program for each platform, and checks its size.
func (r *release) programs() ([]program, error) {
	modules, err := slim(r.root)
	if err != nil {
		return nil, err
	}
	var all []program
	for _, p := range platforms {
		folder := filepath.Join(r.work, p.String()) + string(filepath.Separator)
		flags := fmt.Sprintf("-s -w -buildid= -X main.release=%s -X main.commit=%s -X main.date=%s", r.version, r.commit, r.time.Format("2006-01-02"))
		args := []string{"build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-modfile=" + modules, "-tags=" + tags, "-pgo=" + r.pgo, "-ldflags=" + flags, "-o", folder}
		for _, name := range names {
			args = append(args, "./cmd/"+name)
		}
		if _, err := run(r.root, p.env(), "go", args...); err != nil {
			return nil, err
		}
		for _, name := range names {
			built := program{p, name, filepath.Join(folder, name)}
			info, err := os.Stat(built.path)
			if err != nil {
				return nil, err
			}
			if err := checkSize(fmt.Sprintf("%s of %s", name, p), info.Size()); err != nil {
				return nil, err
			}
			fmt.Printf("%8.1f MB  %s of %s, stripped\n", float64(info.Size())/1e6, name, p)
			all = append(all, built)
		}
	}
	return all, nil
}

// tags leaves out the request traces of gRPC: their pages call methods by name.
const tags = "grpcnotrace"

// checkSize refuses a program that is too large.
func checkSize(name string, bytes int64) error {
	if bytes <= bytesMax {
		return nil
	}
	return fmt.Errorf("%s has %.1f MB, at most %.0f may be: find what grew with go tool nm -size, and calls of reflect's Method and MethodByName with go build -ldflags=-dumpdep",
		name, float64(bytes)/1e6, bytesMax/1e6)
}

// archives writes a .tar.gz and a bill of materials for each platform.
func (r *release) archives(programs []program) error {
	scripts, err := r.completions(programs)
	if err != nil {
		return err
	}
	for _, p := range platforms {
		notices, err := r.notices(p)
		if err != nil {
			return err
		}
		here := of(programs, p)
		files := append([]file{
			{name: "LICENSE", from: filepath.Join(r.root, "LICENSE")},
			{name: "README.md", from: filepath.Join(r.root, "README.md")},
			{name: "THIRD_PARTY_NOTICES", data: notices.text()},
		}, scripts...)
		for _, each := range here {
			files = append(files, file{name: each.name, mode: 0o755, from: each.path})
		}
		for i := range files {
			files[i].name = "afterbay_" + r.version + "_" + p.String() + "/" + files[i].name
		}
		if err := writeTarGz(r.name(p.String()+".tar.gz"), files, r.time); err != nil {
			return err
		}
		if err := r.bill(p, here, notices); err != nil {
			return err
		}
	}
	return nil
}

// completions asks the program of this machine for its scripts, which are the same on all platforms.
func (r *release) completions(programs []program) ([]file, error) {
	here := of(programs, platform{runtime.GOOS, runtime.GOARCH})
	if len(here) == 0 {
		return nil, fmt.Errorf("no program is built for %s/%s: build the release on one of %v", runtime.GOOS, runtime.GOARCH, platforms)
	}
	var files []file
	for shell, name := range map[string]string{"bash": "afterbay.bash", "zsh": "_afterbay", "fish": "afterbay.fish"} {
		script, err := run("", nil, here[0].path, "completion", shell)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: "completions/" + name, data: []byte(script + "\n")})
	}
	return files, nil
}
