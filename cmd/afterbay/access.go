package main

import (
	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/http/reload"
)

// accessFlags say which requests a server takes.
type accessFlags struct {
	Token     string `help:"Token with the role admin, that requests have to bring. Needed where other machines can reach the address, unless there is a token file." env:"AFTERBAY_TOKEN"`
	TokenFile string `help:"File of tokens with their roles; read again when it changes." placeholder:"FILE"`
	Insecure  bool   `help:"Let other machines in without a token."`
	Cert      string `name:"tls-cert" help:"Certificate of TLS, PEM; read again when it changes." placeholder:"FILE"`
	Key       string `name:"tls-key" help:"Its key, PEM." placeholder:"FILE"`
}

// tokens returns the tokens of the token file; nil if no file is named.
func (f *accessFlags) tokens(a *app) (access.Tokens, error) {
	if f.TokenFile == "" {
		return nil, nil
	}
	value, err := reload.New("the token file "+f.TokenFile, a.log, func() (*access.Set, []string, error) {
		file, err := config.LoadTokens(f.TokenFile)
		if err != nil {
			return nil, nil, err
		}
		return file.Open()
	})
	if err != nil {
		return nil, failure.As(failure.OfFiles, err)
	}
	return value, nil
}
