package kafkatest

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLoggedCountsLinesSinceTheLastStart(t *testing.T) {
	b := newBroker("", t.TempDir(), 1, 1, false)
	if _, err := b.Logged("lost"); err == nil {
		t.Error("no error without a log")
	}
	for name, text := range map[string]string{"log.1": "lost\n", "log": "a is lost, lost\nb is not\nc is lost"} {
		file := filepath.Join(filepath.Dir(b.logFile()), name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := b.Logged("lost"); n != 2 || err != nil {
		t.Errorf("%d lines, %v: want 2", n, err)
	}
}
