package replace_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/afterbay/afterbay/internal/sys/replace"
)

// content returns the files of the folder, each with its content or, for a link, what it names.
func content(t *testing.T) string {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		text, err := os.ReadFile(e.Name())
		if to, failed := os.Readlink(e.Name()); failed == nil {
			text, err = []byte("-> "+to), nil
		}
		if e.IsDir() {
			text, err = []byte("folder"), nil
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e.Name()+": "+string(text))
	}
	return strings.Join(list, ", ")
}

func mode(t *testing.T, name string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestAFileIsReplacedWholeOrNotAtAll(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := replace.WriteFile("a", []byte("one"), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := replace.Create("a", 0o666)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("two"); err != nil || !strings.HasSuffix(content(t), "a: one") {
		t.Fatal(err, content(t))
	}
	if err := f.Close(); err != nil || content(t) != "a: one" {
		t.Errorf("%v: %s", err, content(t))
	}
	if err := replace.WriteFile("a", []byte("three"), 0o666); err != nil || content(t) != "a: three" {
		t.Errorf("%v: %s", err, content(t))
	}
	// what cannot be renamed leaves nothing behind
	if f, err = replace.Create("b", 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("b", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err == nil {
		t.Error("a folder was replaced")
	}
	if err := f.Close(); err != nil || content(t) != "a: three, b: folder" {
		t.Errorf("%v: %s", err, content(t))
	}
	for name, want := range map[string]string{"b": "is not a regular file", "c/d": "no such file"} {
		if err := replace.WriteFile(name, nil, 0o666); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestModesAreThoseOfTheUmaskOrOfTheOldFile(t *testing.T) {
	t.Chdir(t.TempDir())
	old := syscall.Umask(0o027)
	defer syscall.Umask(old)
	for name, want := range map[string]fs.FileMode{"new": 0o640, "kept": 0o600} {
		if name == "kept" {
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := replace.WriteFile(name, []byte("x"), 0o666); err != nil || mode(t, name) != want {
			t.Errorf("%s: %v, mode %o, want %o", name, err, mode(t, name), want)
		}
	}
}

func TestLinksAreFollowed(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("f", 0o700); err != nil {
		t.Fatal(err)
	}
	for to, link := range map[string]string{"f/a": "a", "a": "again", "again2": "again1", "again1": "again2", os.DevNull: "null"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"one", "two"} { // the first time it names nothing
		if err := replace.WriteFile("again", []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join("f", "a")); err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	if to, err := os.Readlink("again"); err != nil || to != "a" {
		t.Errorf("the link was replaced: %s %v", to, err)
	}
	for name, want := range map[string]string{"again1": "more than 40 links", "null": "is not a regular file"} {
		if err := replace.WriteFile(name, nil, 0o666); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
