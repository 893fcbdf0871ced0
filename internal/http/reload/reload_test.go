package reload

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

func TestValueFollowsItsFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "value")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	loads := 0
	load := func() (string, []string, error) {
		loads++
		text, err := os.ReadFile(path)
		if err == nil && string(text) == "wrong" {
			err = errors.New("it is wrong")
		}
		return string(text), []string{path}, err
	}
	if _, err := New("a value", nil, load); err == nil {
		t.Error("a file that is not there was loaded")
	}
	synctest.Test(t, func(t *testing.T) {
		write("one")
		v, err := New("a value", nil, load)
		if err != nil {
			t.Fatal(err)
		}
		loads = 0
		want := func(value string, times int, stale bool) {
			t.Helper()
			time.Sleep(2 * Every)
			for range 3 {
				if got := v.Get(); got != value || loads != times || v.Stale() != stale {
					t.Fatalf("%q after %d loads, stale %t, want %q after %d", got, loads, v.Stale(), value, times)
				}
			}
		}
		want("one", 0, false)
		write("two") // of the same size, perhaps at the same time
		want("two", 1, false)
		write("wrong")
		want("two", 2, true)
		want("two", 2, true)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		want("two", 3, true)
		write("three")
		want("three", 4, false)
	})
}
