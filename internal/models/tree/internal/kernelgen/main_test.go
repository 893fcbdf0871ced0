package main

import (
	"bytes"
	"os"
	"testing"
)

func TestCommittedKernelsAreTheGeneratedOnes(t *testing.T) {
	committed, err := os.ReadFile("../../kernel_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(committed, generate()) {
		t.Error("kernel_amd64.s is not what the generator writes: run go generate ./internal/models/tree")
	}
}
