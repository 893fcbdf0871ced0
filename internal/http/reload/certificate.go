package reload

import (
	"crypto/tls"
	"errors"
	"log/slog"
)

// Certificate returns a configuration of TLS 1.2 and later. It reads the certificate
// again when one of the files changes. Both names are empty for a server without TLS:
// then it returns nil.
func Certificate(certFile, keyFile string, logger *slog.Logger) (*tls.Config, error) {
	if certFile == "" && keyFile == "" {
		return nil, nil
	}
	if err := CheckFiles(certFile, keyFile); err != nil {
		return nil, err
	}
	value, err := New("the certificate "+certFile, logger, func() (*tls.Certificate, []string, error) {
		certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
		return &certificate, []string{certFile, keyFile}, err
	})
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return value.Get(), nil },
	}, nil
}

// CheckFiles returns why two names are no pair of files.
func CheckFiles(certFile, keyFile string) error {
	if (certFile == "") != (keyFile == "") {
		return errors.New("TLS needs a certificate and a key: give both files")
	}
	return nil
}
