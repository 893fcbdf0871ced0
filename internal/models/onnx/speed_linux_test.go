package onnx

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/models/oip"
)

// spent is time on the clock and of processors, in seconds.
type spent struct{ wall, cpu float64 }

// timed makes calls here and adds up this process and the one of ONNX Runtime.
func timed(t testing.TB, s *Session, inputs []Tensor, calls int) spent {
	t.Helper()
	started, before := time.Now(), processors(t, s)
	for range calls {
		if _, err := s.Run(t.Context(), inputs); err != nil {
			t.Fatal(err)
		}
	}
	return spent{time.Since(started).Seconds(), processors(t, s) - before}
}

func processors(t testing.TB, s *Session) float64 {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	sum := float64(r.Utime.Sec+r.Stime.Sec) + float64(r.Utime.Usec+r.Stime.Usec)/1e6
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", s.slots[0].process.command.Process.Pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("%d threads: %v", len(threads), err)
	}
	for _, name := range threads {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // it ended
		}
		var nanoseconds float64
		if _, err := fmt.Sscan(string(data), &nanoseconds); err != nil {
			t.Fatal(err)
		}
		sum += nanoseconds / 1e9
	}
	return sum
}

// other is Python, which times calls when it is asked.
type other struct {
	in  io.Writer
	out *bufio.Scanner
}

func (o *other) timed(t testing.TB, rows, calls int) (s spent) {
	t.Helper()
	if _, err := fmt.Fprintln(o.in, rows, calls); err != nil || !o.out.Scan() {
		t.Fatalf("Python timed nothing: %v %v", err, o.out.Err())
	}
	if _, err := fmt.Sscan(o.out.Text(), &s.wall, &s.cpu); err != nil {
		t.Fatal(err)
	}
	return s
}

// sentences are inputs of rows of 24 tokens, as many as the graph asks for.
func sentences(g Graph, rows int) []Tensor {
	var list []Tensor
	for _, in := range g.Inputs {
		t := Tensor{Name: in.Name, Datatype: "INT64", Shape: []int64{int64(rows), 24}}
		for i := range rows * 24 {
			value := map[string]int{"input_ids": 1000 + i*7919%29000, "attention_mask": 1}[in.Name]
			t.Raw = oip.AppendNumber(t.Raw, "INT64", float64(value))
		}
		list = append(list, t)
	}
	return list
}

// The model of sentences on one thread here and in Python, by turns: the median
// of seven pairs, as lines of name, value and unit. Here it includes the way to
// the process and back. The goal is 0.95 on the clock of a machine without other
// work.
func BenchmarkCallsBesidePython(b *testing.B) {
	command := exec.CommandContext(b.Context(), python(b), "testdata/models.py", "speed")
	in, err := command.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	o := other{in, bufio.NewScanner(out)}
	if !o.out.Scan() {
		b.Fatal("Python has no model to time")
	}
	s, err := Open(b.Context(), o.out.Text(), onRuntime(b, Options{}).Session)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for _, rows := range []int{1, 8, 32} {
		var wall, cpu []float64
		inputs, calls := sentences(s.Graph(), rows), max(2, 64/rows)
		for range 7 {
			theirs, ours := o.timed(b, rows, calls), timed(b, s, inputs, calls)
			wall, cpu = append(wall, theirs.wall/ours.wall), append(cpu, theirs.cpu/ours.cpu)
		}
		slices.Sort(wall)
		slices.Sort(cpu)
		fmt.Printf("onnx_rows_%d_to_python %.3f x # on the clock; %.3f to %.3f\n", rows, wall[3], wall[0], wall[6])
		fmt.Printf("onnx_rows_%d_to_python_cpu %.3f x # of processors; %.3f to %.3f\n", rows, cpu[3], cpu[0], cpu[6])
	}
	if err := in.Close(); err != nil {
		b.Error(err)
	}
	if err := command.Wait(); err != nil {
		b.Error(err)
	}
}
