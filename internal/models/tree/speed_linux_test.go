package tree

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/afterbay/afterbay/model"
)

// TestSpeed is what scripts/trees_bench.py runs: it compares and measures the
// models of the folder that AFTERBAY_SPEED names.
func TestSpeed(t *testing.T) {
	folder := os.Getenv("AFTERBAY_SPEED")
	if folder == "" {
		t.Skip("NOT RUN: scripts/trees_bench.sh runs it")
	}
	paths, err := filepath.Glob(filepath.Join(folder, "*.golden.gz"))
	wide, _ := filepath.Glob(filepath.Join(folder, "*.wide.gz"))
	if paths = append(paths, wide...); err != nil || len(paths) == 0 {
		t.Fatal(err, paths)
	}
	for _, path := range paths {
		name, _, _ := strings.Cut(filepath.Base(path), ".")
		files, _ := filepath.Glob(filepath.Join(folder, name+".[ujto]*"))
		if len(files) != 1 {
			t.Fatalf("%s: models %q", path, files)
		}
		m, err := Load(files[0])
		if err != nil {
			t.Fatal(err)
		}
		rows, equal := model.Rows{}, func() string { return "" }
		if strings.HasSuffix(path, ".wide.gz") {
			g := readWide(t, path)
			rows, equal = g.rows, func() string { return wideDifference(m, g, ulpsOf(files[0])) }
		} else {
			g := readGolden(t, path)
			rows, equal = g.rows, func() string { return difference(m, g) }
		}
		t.Run("equal/"+name, func(t *testing.T) {
			if got := equal(); got != "" {
				t.Fatal(got)
			}
			fmt.Printf("%s_rows_bit_equal_each_kernel %d rows\n", name, rows.Len())
		})
		t.Run("rows/"+name, func(t *testing.T) {
			ways := withEach(m)
			for _, k := range kernels() {
				fmt.Printf("%s_%s_batch_64 %.0f rows/cpu-s\n", name, k.name, rowsPerSecond(ways["blocks by "+k.name], rows, blockRows))
			}
			fmt.Printf("%s_alone %.0f rows/cpu-s\n", name, rowsPerSecond(m, rows, 1))
			half, most := quantiles(m, rows)
			fmt.Printf("%s_alone_p50 %d ns\n%s_alone_p99 %d ns\n", name, half.Nanoseconds(), name, most.Nanoseconds())
		})
	}
}

// rowsPerSecond scores for about 0.2 s of processor time.
func rowsPerSecond(m *Model, rows model.Rows, batch int) float64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	next, scores := batches(rows, batch), make([]float32, batch*m.Info().Scores())
	start, scored := threadTime(), 0
	for {
		for range 1 + 256/batch {
			_ = m.Predict(context.Background(), next(), scores)
			scored += batch
		}
		if took := threadTime() - start; took > 200*time.Millisecond {
			return float64(scored) / took.Seconds()
		}
	}
}

// batches returns parts of rows in turn.
func batches(rows model.Rows, batch int) func() model.Rows {
	at := 0
	return func() model.Rows {
		if at+batch > rows.Len() {
			at = 0
		}
		part := model.Rows{Width: rows.Width, Values: rows.Values[at*rows.Width : (at+batch)*rows.Width]}
		at += batch
		return part
	}
}

// threadTime is the processor time of the thread.
func threadTime() time.Duration {
	const thread = 1
	var usage syscall.Rusage
	if err := syscall.Getrusage(thread, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// quantiles returns how long rows take one by one, by the clock on the wall.
func quantiles(m *Model, rows model.Rows) (half, most time.Duration) {
	next, score, times := batches(rows, 1), make([]float32, m.Info().Scores()), make([]time.Duration, 50_000)
	for i := range times {
		row, start := next(), time.Now()
		_ = m.Predict(context.Background(), row, score)
		times[i] = time.Since(start)
	}
	slices.Sort(times)
	return times[len(times)/2], times[len(times)*99/100]
}
