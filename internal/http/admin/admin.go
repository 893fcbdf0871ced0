package admin

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
)

// Admin is the address and token with which the command line reaches the process that holds a data
// directory.
type Admin struct {
	Address string `json:"address"` // host:port
	Token   string `json:"token"`
	PID     int    `json:"pid"`
	Cert    string `json:"cert,omitempty"` // certificate file for TLS; "" means no TLS
}

func newAdmin(address, token, cert string) Admin {
	if absolute, err := filepath.Abs(cert); err == nil && cert != "" {
		cert = absolute
	}
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() { // the server listens on all addresses: use loopback
		address = net.JoinHostPort("127.0.0.1", port)
	}
	return Admin{Address: address, Token: token, PID: os.Getpid(), Cert: cert}
}

func adminPath(dir string) string { return filepath.Join(dir, "ADMIN") }

// Write writes a into the data directory, readable only by its owner. It replaces the file of a
// process that was killed.
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

// Client returns a Client for the process.
func (a Admin) Client() (*Client, error) {
	if a.Cert == "" {
		return &Client{URL: "http://" + a.Address, Token: a.Token}, nil
	}
	secure, err := pinned(a.Cert)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the process: %w", err)
	}
	return &Client{URL: "https://" + a.Address, Token: a.Token, http: &http.Client{Transport: &http.Transport{TLSClientConfig: secure, ForceAttemptHTTP2: true}}}, nil
}

// pinned returns a TLS configuration that trusts only the certificate in a file. It accepts any
// host name, because the certificate may not name the address of the process.
func pinned(path string) (*tls.Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(text)
	for block != nil && block.Type != "CERTIFICATE" {
		block, rest = pem.Decode(rest)
	}
	if block == nil {
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // VerifyConnection makes a stricter check
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 || !bytes.Equal(state.PeerCertificates[0].Raw, block.Bytes) {
				return fmt.Errorf("another certificate than that of %s: run the command again if it was just replaced", path)
			}
			return nil
		},
	}, nil
}

// Remove removes the file that Write wrote into the data directory.
func (a Admin) Remove(dir string) error {
	if err := os.Remove(adminPath(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", adminPath(dir), err)
	}
	return nil
}

// ReadAdmin returns the Admin that a process wrote into the data directory. That process may have
// been killed since. If there is no such file, the error is fs.ErrNotExist.
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
