package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// mode returns the permissions of a path.
func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestOnlyTheOwnerMayReadWhatIsMade(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o077} {
		old := syscall.Umask(umask)
		outer := filepath.Join(t.TempDir(), "data")
		dir := filepath.Join(outer, "inner")
		err := OS().MkdirAll(dir, 0o777)
		for name, open := range map[string]func(path string) (io.Closer, error){
			"created": func(path string) (io.Closer, error) { return OS().Create(path, WriteCategoryUnspecified) },
			"opened":  func(path string) (io.Closer, error) { return OS().OpenReadWrite(path, WriteCategoryUnspecified) },
			"LOCK":    func(path string) (io.Closer, error) { return OS().Lock(path) },
		} {
			f, openErr := open(filepath.Join(dir, name))
			if openErr != nil {
				t.Fatal(errors.Join(err, openErr))
			}
			err = errors.Join(err, f.Close())
			if got := mode(t, filepath.Join(dir, name)); got != 0o600 {
				t.Errorf("umask %o: %s has %v", umask, name, got)
			}
		}
		if a, b := mode(t, outer), mode(t, dir); a != 0o700 || b != 0o700 {
			t.Errorf("umask %o: folders have %v and %v", umask, a, b)
		}
		if syscall.Umask(old); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheUmaskDecidesWhoReadsSharedFiles(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	dir := filepath.Join(t.TempDir(), "lake")
	if err := Shared().MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	f, err := Shared().Create(filepath.Join(dir, "a.parquet"), WriteCategoryUnspecified)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if a, b := mode(t, dir), mode(t, filepath.Join(dir, "a.parquet")); a != 0o750 || b != 0o640 {
		t.Errorf("%v, %v", a, b)
	}
}

func TestFoldersThatAreThereAreProtected(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	inner, file, narrow := filepath.Join(dir, "log"), filepath.Join(dir, "log", "0"), filepath.Join(dir, "kept", "0")
	foreign, script := filepath.Join(dir, "archive", "0"), filepath.Join(dir, "log.sh")
	for _, err := range []error{
		os.WriteFile(outside, nil, 0o644), os.Mkdir(inner, 0o755), os.WriteFile(file, nil, 0o644),
		os.Mkdir(filepath.Dir(narrow), 0o700), os.WriteFile(narrow, nil, 0o644),
		os.Symlink(outside, filepath.Join(dir, "link")), syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644),
		os.Chmod(dir, 0o755|fs.ModeSetgid), os.Chmod(inner, 0o755), os.Chmod(file, 0o644), os.Chmod(narrow, 0o644), os.Chmod(outside, 0o644),
		os.Mkdir(filepath.Join(dir, "archive"), 0o755), os.WriteFile(foreign, nil, 0o644), os.Chmod(filepath.Dir(foreign), 0o755), os.Chmod(foreign, 0o644),
		os.WriteFile(script, nil, 0o755), os.Chmod(script, 0o755),
		Protect(OS(), dir, "log", "kept", "link", "pipe", "none"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	// The content of a protected folder, and files with other names, keep their modes.
	for path, want := range map[string]fs.FileMode{dir: 0o700, inner: 0o700, file: 0o600, outside: 0o644, narrow: 0o644, filepath.Dir(foreign): 0o755, foreign: 0o644, script: 0o755} {
		if got := mode(t, path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode()&fs.ModeSetgid == 0 {
		t.Errorf("the folder lost its group: %v, %v", info.Mode(), err)
	}
	if err := errors.Join(os.Chmod(file, 0o644), Protect(OS(), dir, "log"), Protect(NewMemory(), "none")); err != nil || mode(t, file) != 0o644 {
		t.Errorf("a protected folder is read again: %v", err)
	}
	link := filepath.Join(t.TempDir(), "data")
	if err := errors.Join(os.Chmod(dir, 0o750), os.Symlink(dir, link), Protect(OS(), link)); err != nil || mode(t, dir) != 0o700 {
		t.Errorf("by a link: %v, %v", mode(t, dir), err)
	}
	if err := Protect(OS(), filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestFilesThatBecomeLinksAreNotFollowed swaps a file and a link to a file outside, as a
// member of the folder's group can while the folder is protected.
func TestFilesThatBecomeLinksAreNotFollowed(t *testing.T) {
	outer := t.TempDir()
	dir, outside := filepath.Join(outer, "data"), filepath.Join(outer, "outside")
	file, next, name := filepath.Join(outer, "file"), filepath.Join(outer, "next"), filepath.Join(dir, "log")
	f, err := os.Create(file)
	if err := errors.Join(err, os.Mkdir(dir, 0o755), os.WriteFile(outside, nil, 0o644), os.Chmod(outside, 0o644)); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	end, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-end:
				ended <- nil
				return
			default:
			}
			if err := errors.Join(os.Link(file, next), os.Rename(next, name), os.Symlink(outside, next), os.Rename(next, name)); err != nil {
				ended <- err
				return
			}
		}
	}()
	for i := range 20_000 {
		if err := errors.Join(f.Chmod(0o644), os.Chmod(dir, 0o755)); err != nil {
			t.Error(err)
			break
		}
		_ = Protect(OS(), dir, "log") // it may say that the file became a link
		if mode(t, outside) != 0o644 {
			t.Errorf("the target of a link is protected, in round %d", i)
			break
		}
	}
	close(end)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestModeGoesToTheFileThatIsOpen(t *testing.T) {
	dir := t.TempDir()
	outside, name := filepath.Join(dir, "outside"), filepath.Join(dir, "0")
	f, err := OS().Create(name, WriteCategoryUnspecified)
	err = errors.Join(err, os.WriteFile(outside, nil, 0o644), os.Chmod(outside, 0o644), os.Remove(name), os.Symlink(outside, name))
	if err != nil {
		t.Fatal(err)
	}
	f, err = restricted(f, nil)
	if err := errors.Join(err, f.Close()); err != nil || mode(t, outside) != 0o644 {
		t.Errorf("%v, %v", mode(t, outside), err)
	}
}

// TestFileSystemsWithoutModesAreUsed has what a file system says that has no chmod.
func TestFileSystemsWithoutModesAreUsed(t *testing.T) {
	for _, err := range []error{nil, syscall.EPERM, syscall.ENOSYS, syscall.ENOTSUP} {
		if err := settled(err); err != nil {
			t.Error(err)
		}
	}
	if settled(syscall.EIO) == nil {
		t.Error("a file that may be open to others")
	}
}
