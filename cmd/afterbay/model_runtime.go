package main

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/models/onnx"
)

type modelRuntimeCommand struct {
	Wheel  string `type:"existingfile" placeholder:"FILE" help:"Extract it from this wheel of the Python package onnxruntime."`
	Lib    string `type:"existingfile" placeholder:"FILE" help:"Install this library file."`
	SHA256 string `name:"sha256" placeholder:"DIGEST" help:"SHA-256 digest of the library, if it is not the known version."`
}

// Help describes the source and the destination of the library.
func (modelRuntimeCommand) Help() string {
	return "Installs the library of ONNX Runtime " + onnx.RuntimeVersion + ", which ONNX models other than trees need, into the user's cache: " +
		"from the Python package onnxruntime, which pip downloads, or from a file. A file with another digest is refused."
}

// Run installs the library and prints its path.
func (c *modelRuntimeCommand) Run(a *app) error {
	path, err := onnx.Install(a.ctx, onnx.Source{Wheel: c.Wheel, Library: c.Lib, Digest: c.SHA256})
	if err != nil {
		return err
	}
	fmt.Fprintln(a.stdout, path)
	return nil
}
