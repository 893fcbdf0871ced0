// Command afterbay-onnx runs ONNX Runtime and one model for the afterbay process that starts it. It
// is a separate program for two reasons. It links the system's C library, and afterbay does not. A
// crash of ONNX Runtime must not end afterbay.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/afterbay/afterbay/internal/models/onnx/worker"
)

func main() {
	// A terminal or service manager also sends its signals to this process, but afterbay may still
	// need it to finish its work. This process ends when its input ends.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	os.Exit(worker.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
