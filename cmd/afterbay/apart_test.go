package main

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// apartFrom in the environment names the test that a process is for.
const apartFrom = "AFTERBAY_TEST_APART"

// apart runs a test in a process of its own, beside others: a working directory and
// an environment are those of a process. A long test begins with
//
//	if apart(t) {
//		return
//	}
//
// It is for tests that mind no other beside them.
func apart(t *testing.T) bool {
	t.Helper()
	if os.Getenv(apartFrom) == t.Name() {
		return false
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.v", "-test.run=^" + t.Name() + "$"}
	if deadline, ok := t.Deadline(); ok { // before that of this process, which would leave the other alone
		args = append(args, "-test.timeout="+(time.Until(deadline)*9/10).String())
	}
	flag.Visit(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Name, "test.") {
			args = append(args, "-"+f.Name+"="+f.Value.String())
		}
	})
	c := exec.CommandContext(t.Context(), self, args...)
	c.Env = append(os.Environ(), apartFrom+"="+t.Name())
	out, err := c.CombinedOutput()
	switch {
	case err == nil && strings.Contains(string(out), "--- SKIP: "+t.Name()+" "):
		t.Skipf("%s", out)
	case err == nil && strings.Contains(string(out), "--- PASS: "+t.Name()+" "):
		t.Logf("%s", out)
	default:
		t.Fatalf("%v: %s", err, out)
	}
	return true
}
