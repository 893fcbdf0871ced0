package reload

import (
	"crypto/tls"
	"errors"
	"log/slog"
)

// Certificate returns a configuration for TLS 1.2 and later. It reads the certificate again when
// one of the files changes. If both names are empty, it returns nil: the server then uses no TLS.
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

// CheckFiles returns an error if only one of the two file names is set.
func CheckFiles(certFile, keyFile string) error {
	if (certFile == "") != (keyFile == "") {
		return errors.New("TLS needs a certificate and a key: give both files")
	}
	return nil
}
