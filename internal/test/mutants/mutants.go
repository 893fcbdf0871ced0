// Package mutants breaks code in one place at a time, and checks that tests fail. A mutation is
// kept as text, so that it can be repeated:
//
//	== a frontier that is equal is not enough
//	internal/state/order/merger.go
//	-	return k, v, !frontier.Before(k)
//	+	return k, v, k.Before(frontier)
//	? ./internal/state/order
//
// The lines with - must occur exactly once in the file; those with + replace them. The lines with ?
// are arguments of go test; without such lines it tests the package of the file.
package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	run  = flag.Bool("mutants.run", false, "run the tests against each mutation; else each is only looked for in its file")
	only = flag.String("mutants.only", "", "a regular expression of the names of mutations")
)

// Mutant is a mutation of one file.
type Mutant struct {
	Name, File string
	from, to   string
	Tests      []string // arguments of go test, in lines
}

// The tests of a mutation may take hangFactor times as long as without it, and hangTime more. A test
// that hangs counts as failed. Tests without a mutation may take soundTime.
const (
	hangFactor = 2
	hangTime   = 30 * time.Second
	soundTime  = 15 * time.Minute
)

// Check checks that the lines of each mutation in a file occur in the code. With -mutants.run it
// also checks that tests fail for each of them, and logs the tests. root is the path of the
// repository.
func Check(t *testing.T, root, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	list, err := Parse(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if root, err = filepath.Abs(root); err != nil {
		t.Fatal(err)
	}
	chosen, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	red, sound := 0, map[string]time.Duration{} // how long tests take without a mutation
	for _, m := range list {
		mutated, err := m.apply(root)
		switch {
		case err != nil:
			t.Errorf("%s: %s: %v", file, m.Name, err)
		case !*run || !chosen.MatchString(m.Name):
		default:
			tests := fmt.Sprint(m.tests())
			if sound[tests] == 0 { // tests that fail anyway would detect every mutation
				start := time.Now()
				if first, err := m.test(t.Context(), root, t.TempDir(), "", soundTime); !errors.Is(err, errUnseen) {
					t.Fatalf("%s: red without a mutation: %s, %v", tests, first, err)
				}
				sound[tests] = time.Since(start)
			}
			first, err := m.test(t.Context(), root, t.TempDir(), mutated, hangFactor*sound[tests]+hangTime)
			if err != nil {
				t.Errorf("%s: %v", m.Name, err)
				continue
			}
			red++
			t.Logf("%-75s | %s", m.Name, first)
		}
	}
	if *run {
		t.Logf("%d of %d mutations turn a test red", red, len(list))
	}
}

// Parse parses mutations.
func Parse(text string) (list []Mutant, err error) {
	for i, line := range strings.Split(text, "\n") {
		name, begins := strings.CutPrefix(line, "== ")
		if begins {
			list = append(list, Mutant{Name: name})
			continue
		}
		if line == "" || line[0] == '#' {
			continue
		}
		if len(list) == 0 {
			return nil, fmt.Errorf("line %d: begin a mutation with a line \"== name\"", i+1)
		}
		switch m := &list[len(list)-1]; line[0] {
		case '-':
			m.from += line[1:] + "\n"
		case '+':
			m.to += line[1:] + "\n"
		case '?':
			m.Tests = append(m.Tests, strings.TrimSpace(line[1:]))
		default:
			if m.File != "" {
				return nil, fmt.Errorf("line %d: %q: a line of code begins with - or +", i+1, line)
			}
			m.File = line
		}
	}
	for _, m := range list {
		if m.File == "" || m.from == "" || m.from == m.to {
			return nil, fmt.Errorf("%s: it names no file, or changes nothing", m.Name)
		}
	}
	return list, nil
}

// apply returns the text of the file with the mutation.
func (m *Mutant) apply(root string) (string, error) {
	data, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return "", err
	}
	text := string(data)
	if n := strings.Count(text, m.from); n != 1 {
		return "", fmt.Errorf("%s has the lines with - %d times, and should have them once: mend the mutation", m.File, n)
	}
	return strings.Replace(text, m.from, m.to, 1), nil
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^(panic: .*)|^(FAIL\s.*\[build failed\])`)

var errUnseen = errors.New("no test is red")

// tests returns the arguments of go test, in lines.
func (m *Mutant) tests() []string {
	if m.Tests == nil {
		return []string{"./" + path.Dir(m.File)}
	}
	return m.Tests
}

// test returns the first tests that fail with the mutation, or with the original file if mutated is
// "". It is an error if no test fails. timeout bounds each line of tests.
func (m *Mutant) test(ctx context.Context, root, dir, mutated string, timeout time.Duration) (first string, err error) {
	if mutated == "" {
		text, err := os.ReadFile(filepath.Join(root, m.File))
		if err != nil {
			return "", err
		}
		mutated = string(text)
	}
	instead, overlay := filepath.Join(dir, path.Base(m.File)), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, m.File): instead}})
	if err := errors.Join(err, os.WriteFile(instead, []byte(mutated), 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return "", err
	}
	tests := m.tests()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(len(tests))*timeout+10*time.Minute) // includes the build
	defer cancel()
	for _, arguments := range tests {
		command := exec.CommandContext(ctx, "go", slices.Concat([]string{"test", "-vet=off", "-failfast", "-count=1", "-timeout=" + timeout.String(), "-overlay=" + overlay}, strings.Fields(arguments))...)
		command.Dir = root
		out, err := command.CombinedOutput()
		if err == nil {
			continue
		}
		found := failed.FindAllString(string(out), 3)
		if len(found) == 0 || strings.Contains(string(out), "[build failed]") {
			return "", fmt.Errorf("go test %s: %w: %s", arguments, err, out)
		}
		for i := range found {
			found[i] = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(found[i]), "--- FAIL:"))
		}
		return strings.Join(found, ", "), nil
	}
	return "", fmt.Errorf("%w: %s", errUnseen, strings.Join(tests, "; "))
}
