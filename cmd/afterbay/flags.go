package main

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/internal/spec"
)

// directoryFlags select the data directory that a command works on.
type directoryFlags struct {
	engineFlags
	Data  string `help:"Data directory. If a process holds it, the command asks that process." default:"data" placeholder:"DIR"`
	URL   string `help:"Ask the process at this address, http://host:port, instead." name:"url"`
	Token string `help:"Token for --url." env:"AFTERBAY_TOKEN"`

	engine *process.Engine // set by open; nil with --url
}

// listenFlags set the address of a process's HTTP server.
type listenFlags struct {
	Listen string `help:"Address of the HTTP server; port 0 takes a free port, none starts no server." default:"127.0.0.1:7070" placeholder:"HOST:PORT"`
	accessFlags
	requestFlags
}

// requestFlags limit the resources that requests use.
type requestFlags struct {
	Connections   int      `help:"Maximum of open connections; 0 is 1024, or a quarter of the file limit of the process if that is less." default:"0" placeholder:"N"`
	RequestMemory byteSize `help:"Memory for all requests together, 16MiB or more. The process uses about twice as much for them. A request above it waits 2 s, then gets 503." default:"128MiB" placeholder:"SIZE"`
}

// memory returns the memory budget for the requests of the process.
func (f *requestFlags) memory() *server.Budget { return server.NewBudget(int64(f.RequestMemory)) }

// parallelismFlags set how many members of a pipeline's group this process runs.
type parallelismFlags struct {
	Parallelism int `help:"Members of the group of each pipeline in this process, which share its partitions; 0 is one per core." default:"0"`
}

// stateFlags limit the memory of state.
type stateFlags struct {
	StateMemory byteSize `help:"Memory for the state of all pipelines together, 16MiB or more: three quarters for committed state, the rest for decoded keys, their expiry times and events that wait for other partitions. State without room is read from disk when it is needed." default:"1GiB" placeholder:"SIZE"`
}

// log and keys return the shares of the log and of each of a number of pipelines, in bytes.
func (f *stateFlags) log() int64 { return int64(f.StateMemory) / 4 * 3 }
func (f *stateFlags) keys(pipelines int) int64 {
	return int64(f.StateMemory) / 4 / int64(max(1, pipelines))
}

// byteSize is a number of bytes in the syntax of pipeline files.
type byteSize int64

const stateLeast = 16 << 20

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *byteSize) UnmarshalText(text []byte) error {
	n, ok := spec.ParseSize(string(text))
	if !ok || n < stateLeast {
		return fmt.Errorf("%q: use a size of 16MiB or more, as in 512MiB or 4GiB", text)
	}
	*s = byteSize(n)
	return nil
}
