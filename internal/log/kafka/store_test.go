package kafka

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestOnlyTheOwnerMayReadTheLocalState(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "kafka")
	o := Options{Dir: dir}.withDefaults()
	for _, existing := range []bool{false, true} {
		if existing { // made by a version that left it to the umask
			err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
				if err == nil && entry.IsDir() {
					return os.Chmod(path, 0o775)
				}
				return errors.Join(err, os.Chmod(path, 0o664))
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		s, err := openStore(&o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		files := 0
		err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if files++; err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("existing %t: %s has %v", existing, path, info.Mode())
			}
			return err
		})
		if err != nil || files < 5 {
			t.Errorf("%d files, %v", files, err)
		}
	}
}
