package main

import (
	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/process/builtin"
)

// fileKinds are the kinds that a pipeline file may name.
func fileKinds() config.Kinds { return builtin.Kinds() }
