package main

// directoryFlags say which data directory a command works on.
type directoryFlags struct {
	Data  string `help:"Data directory. Where a process holds it, the command asks that process." default:"data" placeholder:"DIR"`
	URL   string `help:"Ask the process at this address, http://host:port, instead." name:"url"`
	Token string `help:"Token for --url." env:"AFTERBAY_TOKEN"`
}

// listenFlags say where a process can be reached.
type listenFlags struct {
	Listen   string `help:"Address of the HTTP server; port 0 takes a free one, none is no server." default:"127.0.0.1:7070" placeholder:"HOST:PORT"`
	Token    string `help:"Token that requests have to bring. Needed where other machines can reach the address." env:"AFTERBAY_TOKEN"`
	Insecure bool   `help:"Let other machines in without a token."`
}

// sessionFlags say how many sessions a pipeline has.
type sessionFlags struct {
	Sessions int `help:"Sessions of each pipeline, which share its partitions; 0 is one per core." default:"0"`
}
