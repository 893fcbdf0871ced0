package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/sys/term"
)

func TestReadingFromATerminalIsSaid(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "counts.yaml", countsPipeline)
	for _, args := range []string{"produce in --partitions 1", "try counts.yaml", "init --sample -", "dataset counts.yaml --pipeline counts --out x.csv", "token inspect -"} {
		terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
		if err != nil {
			t.Skipf("no terminals here: %v", err)
		}
		out, done := newScreen(), make(chan int, 1)
		go func() { done <- run(context.WithoutCancel(t.Context()), strings.Fields(args), terminal, out, out) }()
		out.wait(t, "from the terminal until Ctrl-D")
		if err := terminal.Close(); err != nil { // ends the read
			t.Error(err)
		}
		<-done
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if term.Is(null) {
		t.Error(os.DevNull + " is taken for a terminal")
	}
}
