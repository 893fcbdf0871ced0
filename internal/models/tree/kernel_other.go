//go:build !amd64

package tree

func vectorKernels() []kernel { return nil }
