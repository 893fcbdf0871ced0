package main

import (
	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/process"
)

// accessFlags set the requests that a server accepts.
type accessFlags struct {
	Token     string `help:"Token with the role admin, required of each request. Needed if other machines can reach the address, unless a token file is given." env:"AFTERBAY_TOKEN"`
	TokenFile string `help:"File of tokens with their roles; read again when it changes." placeholder:"FILE"`
	Insecure  bool   `help:"Allow requests of other machines without a token."`
	Cert      string `name:"tls-cert" help:"Certificate of TLS, PEM; read again when it changes." placeholder:"FILE"`
	Key       string `name:"tls-key" help:"Its key, PEM." placeholder:"FILE"`
}

// tokens returns the tokens of the token file; nil if no file is named.
func (f *accessFlags) tokens(a *app) (access.Tokens, error) {
	return process.Tokens(f.TokenFile, a.log)
}
