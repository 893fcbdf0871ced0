package main

import (
	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/process/builtin"
)

// fileKinds returns the kinds that a pipeline file can name.
func fileKinds() config.Kinds { return builtin.Kinds() }
