// Command afterbay-onnx holds ONNX Runtime and one model for an afterbay that
// starts it. It is a program of its own because it is linked to the system's C
// library, which afterbay is not, and because what ends it must not end
// afterbay.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/afterbay/afterbay/internal/models/onnx/worker"
)

func main() {
	// Signals for a terminal's or a service's processes reach this one too,
	// but afterbay still has work to finish with it. It ends with its input.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	os.Exit(worker.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
