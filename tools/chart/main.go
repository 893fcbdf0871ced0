// Command chart checks the Helm chart: it lints the chart with files of values,
// renders it, and holds the objects to the schemas of Kubernetes. It also sees
// that values which make no sense are refused.
//
//	go -C tools/chart run . -python .venv/bin/python ../../deploy/helm/afterbay
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("chart: ")
	python := flag.String("python", "python3", "Python with the package kubernetes-validate")
	out := flag.String("out", "", "folder that gets the rendered objects, one file for each file of values")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("name the folder of the chart")
	}
	if err := check(flag.Arg(0), *python, *out); err != nil {
		log.Fatal(err)
	}
}

// check checks the chart with each file of its folder ci. The names of files that
// have to be refused begin with bad-; their first line is a comment with a part
// of the error.
func check(chart, python, out string) error {
	files, err := filepath.Glob(filepath.Join(chart, "ci", "*.yaml"))
	if err != nil || len(files) < 2 {
		return fmt.Errorf("%s: %d files of values, %v", chart, len(files), err)
	}
	if out == "" {
		if out, err = os.MkdirTemp("", "afterbay-chart-"); err != nil {
			return err
		}
		defer os.RemoveAll(out)
	}
	for _, file := range files {
		name := filepath.Base(file)
		text, err := render(chart, file)
		if strings.HasPrefix(name, "bad-") {
			if err := refused(file, err); err != nil {
				return err
			}
			fmt.Printf("%s: refused\n", name)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		rendered := filepath.Join(out, name)
		if err := os.WriteFile(rendered, text, 0o644); err != nil {
			return err
		}
		objects, err := validate(python, rendered)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Printf("%s: %d objects\n", name, objects)
	}
	return nil
}

// refused compares an error with the first line of a file of values.
func refused(file string, got error) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	want, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
	if got == nil || !strings.Contains(got.Error(), want) {
		return fmt.Errorf("%s: the error is %v, want %q", filepath.Base(file), got, want)
	}
	return nil
}

// render lints the chart with a file of values, and returns its objects, in the order of template names.
func render(chart, file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	values, err := common.ReadValues(text)
	if err != nil {
		return nil, err
	}
	var faults []error
	for _, m := range lint.RunAll(chart, values, "default").Messages {
		if m.Severity >= support.WarningSev {
			faults = append(faults, m)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	loaded, err := loader.Load(chart)
	if err != nil {
		return nil, err
	}
	options := common.ReleaseOptions{Name: "fraud", Namespace: "default", Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(loaded, values, options, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(loaded, all)
	if err != nil {
		return nil, err
	}
	var objects bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if strings.HasSuffix(name, ".yaml") && strings.TrimSpace(rendered[name]) != "" {
			fmt.Fprintf(&objects, "---\n%s\n", strings.TrimPrefix(strings.TrimSpace(rendered[name]), "---\n"))
		}
	}
	return objects.Bytes(), nil
}

// validate holds objects to the schemas of Kubernetes, strictly, and returns how
// many it judged. Kinds of operators have no schema there: they are not counted.
func validate(python, file string) (int, error) {
	command := exec.Command(python, "-m", "kubernetes_validate", "--strict", file)
	out, err := command.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	judged := bytes.Count(out, []byte(" passed for "))
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	objects := bytes.Count(text, []byte("\nkind: "))
	for _, kind := range []string{"ServiceMonitor", "ScaledObject", "TriggerAuthentication"} {
		objects -= bytes.Count(text, []byte("\nkind: "+kind+"\n"))
	}
	if judged != objects {
		return 0, fmt.Errorf("%d of %d objects were judged: %s", judged, objects, out)
	}
	return judged, nil
}
