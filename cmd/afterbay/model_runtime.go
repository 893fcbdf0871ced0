package main

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/models/onnx"
)

type modelRuntimeCommand struct {
	Wheel  string `type:"existingfile" placeholder:"FILE" help:"Take it out of this wheel of the Python package onnxruntime."`
	Lib    string `type:"existingfile" placeholder:"FILE" help:"Take this library."`
	SHA256 string `name:"sha256" placeholder:"DIGEST" help:"Digest that the library must have, if it is not the one that is known here."`
}

// Help describes the source and the destination of the library.
func (modelRuntimeCommand) Help() string {
	return "Installs the library of ONNX Runtime " + onnx.RuntimeVersion + ", which models of ONNX other than trees need, into the user's cache: " +
		"from the Python package onnxruntime, which pip downloads, or from a file. A file of another digest than the known one is refused."
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
