package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// Admin is how the command line reaches the process that holds a data
// directory.
type Admin struct {
	Address string `json:"address"` // host:port
	Token   string `json:"token"`
	PID     int    `json:"pid"`
}

func newAdmin(address, token string) Admin {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() { // all addresses: this machine's will do
		address = net.JoinHostPort("127.0.0.1", port)
	}
	return Admin{Address: address, Token: token, PID: os.Getpid()}
}

func adminPath(dir string) string { return filepath.Join(dir, "ADMIN") }

// Write puts a into the data directory, for its owner alone. It replaces what a
// process that was killed has left.
func (a Admin) Write(dir string) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	next := adminPath(dir) + ".tmp"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write %s: %w", next, err)
	}
	if err := os.WriteFile(next, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", next, err)
	}
	if err := os.Rename(next, adminPath(dir)); err != nil {
		return fmt.Errorf("write %s: %w", adminPath(dir), err)
	}
	return nil
}

// Remove takes a out of the data directory.
func (a Admin) Remove(dir string) error {
	if err := os.Remove(adminPath(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", adminPath(dir), err)
	}
	return nil
}

// ReadAdmin returns what the process that holds the data directory, or one that
// was killed, has written there. It is fs.ErrNotExist where there is nothing.
func ReadAdmin(dir string) (Admin, error) {
	var a Admin
	text, err := os.ReadFile(adminPath(dir))
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil {
		return Admin{}, fmt.Errorf("read %s: %w", adminPath(dir), err)
	}
	return a, nil
}
