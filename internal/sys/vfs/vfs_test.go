package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

func create(t *testing.T, fs FS, name string, contents ...string) File {
	t.Helper()
	f, err := fs.Create(name, WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range contents {
		if _, err := f.Write([]byte(c)); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func syncAll(t *testing.T, fs FS, files ...File) {
	t.Helper()
	root, err := fs.OpenDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(files, root) {
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
}

// contents returns the bytes of a file, "absent" where there is none.
func contents(t *testing.T, fs FS, name string) string {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		return "absent"
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, info.Size())
	if n, err := f.ReadAt(b, 0); n != len(b) {
		t.Fatal(err)
	}
	return string(b)
}

func TestCrashWithoutLuckKeepsWhatWasSyncedAlone(t *testing.T) {
	m := NewMemory()
	f := create(t, m, "a", "old")
	syncAll(t, m, f)
	f.WriteAt([]byte("new and longer"), 0)
	create(t, m, "b", "never synced")
	m.Rename("a", "c")
	if got := contents(t, m, "c"); got != "new and longer" {
		t.Fatalf("a process reads %q", got)
	}
	after := m.Crash(nil)
	for name, want := range map[string]string{"a": "old", "b": "absent", "c": "absent"} {
		if got := contents(t, after, name); got != want {
			t.Errorf("after the crash %s is %q, want %q", name, got, want)
		}
	}
	if got := contents(t, m.Copy(), "c"); got != "new and longer" {
		t.Errorf("after a kill c is %q", got)
	}
	if got := contents(t, m.Copy().Crash(nil), "a"); got != "old" {
		t.Errorf("after a kill and a crash a is %q", got)
	}
}

// TestCrashDropsReordersAndTears looks for each kind of loss, at both sizes of
// sectors, and for none that no disk shows.
func TestCrashDropsReordersAndTears(t *testing.T) {
	const seed = 5
	rng := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	seen := map[string]int{}
	for range 2000 {
		m := NewMemory()
		f := create(t, m, "f")
		f.WriteAt(bytes.Repeat([]byte("0"), 12<<10), 0)
		syncAll(t, m, f)
		f.WriteAt(bytes.Repeat([]byte("1"), 10<<10), 100)
		f.WriteAt(bytes.Repeat([]byte("2"), 8<<10), 4096)
		b := []byte(contents(t, m.Crash(rng), "f"))
		if len(b) != 12<<10 || slices.Contains(b[:100], '1') {
			t.Fatalf("%d bytes; a write reached what it was not made for", len(b))
		}
		first, second := bytes.Count(b, []byte("1")), bytes.Count(b, []byte("2"))
		torn := 0
		for i := 1; i < len(b); i++ {
			if b[i] != b[i-1] && i != 100 && i != 100+10<<10 {
				if i%512 != 0 {
					t.Fatalf("a sector is torn at byte %d", i)
				}
				if i%4096 != 0 {
					torn++
				}
			}
		}
		seen[fmt.Sprintf("dropped %v", first+second == 0)]++
		seen[fmt.Sprintf("second before first %v", second == 8<<10 && first == 0)]++
		seen[fmt.Sprintf("torn at 512 %v", torn > 0)]++
		seen[fmt.Sprintf("torn at 4096 %v", torn == 0 && first > 0 && second > 0 && second < 8<<10)]++
	}
	for _, want := range []string{"dropped true", "second before first true", "torn at 512 true", "torn at 4096 true"} {
		if seen[want] == 0 {
			t.Errorf("never %s: %v", want, seen)
		}
	}
}

func TestCrashKeepsTheOrderOfNamesAndRenamesWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	seen := map[string]int{}
	for range 1000 {
		m := NewMemory()
		f := create(t, m, "a", "a")
		syncAll(t, m, f)
		m.Rename("a", "b")
		g := create(t, m, "c", "c")
		if err := g.Sync(); err != nil {
			t.Fatal(err)
		}
		after := m.Crash(rng)
		a, b, c := contents(t, after, "a"), contents(t, after, "b"), contents(t, after, "c")
		if (a == "absent") == (b == "absent") {
			t.Fatalf("half a rename: a is %q, b is %q", a, b)
		}
		seen[fmt.Sprintf("renamed %v, created %v", b == "a", c != "absent")]++
	}
	if len(seen) != 3 || seen["renamed false, created true"] > 0 {
		t.Errorf("outcomes %v", seen)
	}
}

func TestFullMemoryWritesWhatFits(t *testing.T) {
	m := NewMemory()
	m.SetCapacity(10)
	f := create(t, m, "a", "1234567")
	if n, err := f.Write([]byte("890ab")); n != 3 || !errors.Is(err, ENOSPC) {
		t.Fatalf("wrote %d, %v", n, err)
	}
	if n, err := f.WriteAt([]byte("xyz"), 0); n != 3 || err != nil {
		t.Fatalf("overwrote %d, %v", n, err)
	}
	if usage, err := m.GetDiskUsage("."); usage.AvailBytes != 0 || err != nil {
		t.Fatalf("%+v, %v", usage, err)
	}
	m.Remove("a")
	if used := m.Used(); used != 0 {
		t.Fatalf("%d bytes are used", used)
	}
}

func TestFaultyBreaksTheCallThatIsMeant(t *testing.T) {
	of := func(k Kind) func(Call) bool { return func(c Call) bool { return c.Kind == k } }
	m := NewMemory()
	f := create(t, Faulty(m, Nth(2, false, Outcome{Err: EIO, Short: true}, of(Write))), "short", "first ")
	if n, err := f.Write([]byte("second")); n != 3 || !errors.Is(err, EIO) {
		t.Errorf("short write of %d, %v", n, err)
	}
	f.Write([]byte("."))
	if got := contents(t, m, "short"); got != "first sec." {
		t.Errorf("short: %q", got)
	}

	f = create(t, Faulty(m, Nth(1, false, Outcome{Lie: true}, of(Sync))), "lie", "lost")
	syncAll(t, m)
	if err := f.Sync(); err != nil || contents(t, m.Crash(nil), "lie") != "" {
		t.Errorf("a lying sync: %v, %q", err, contents(t, m.Crash(nil), "lie"))
	}
	if err := f.Sync(); err != nil || contents(t, m.Crash(nil), "lie") != "lost" {
		t.Errorf("the sync after it: %v, %q", err, contents(t, m.Crash(nil), "lie"))
	}

	f = create(t, Faulty(m, Nth(1, false, Outcome{Err: EIO}, of(Sync))), "failed", "gone")
	syncAll(t, m)
	first, second := f.Sync(), f.Sync()
	if !errors.Is(first, EIO) || second != nil || contents(t, m, "failed") != "gone" || contents(t, m.Crash(nil), "failed") != "" {
		t.Errorf("a failed sync: %v, then %v; a process reads %q, the disk has %q", first, second, contents(t, m, "failed"), contents(t, m.Crash(nil), "failed"))
	}

	full := Faulty(m, Nth(1, true, Outcome{Err: ENOSPC}, Call.changes))
	for range 2 {
		if _, err := full.Create("x", WriteCategoryUnspecified); !errors.Is(err, ENOSPC) {
			t.Errorf("create on a full disk: %v", err)
		}
	}
	if _, err := full.Open("short"); err != nil {
		t.Errorf("open on a full disk: %v", err)
	}
}

func (c Call) changes() bool { return c.Kind.Changes() }

// TestDatabaseRunsOnMemory runs Pebble, with its log, through crashes: what it
// synced is there.
func TestDatabaseRunsOnMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	m := NewMemory()
	for round := range 10 {
		db, err := pebble.Open("db", &pebble.Options{FS: Faulty(m, func(Call) Outcome { return Outcome{} }), Logger: silent{}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 * round {
			value, closer, err := db.Get(fmt.Append(nil, i))
			if err != nil || string(value) != fmt.Sprint("value ", i) {
				t.Fatalf("round %d: key %d is %q, %v", round, i, value, err)
			}
			closer.Close()
		}
		for i := range 20 {
			n := 20*round + i
			if err := db.Set(fmt.Append(nil, n), fmt.Append(nil, "value ", n), pebble.Sync); err != nil {
				t.Fatal(err)
			}
		}
		if round%3 == 0 {
			if err := db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		crashed := m.Crash(rng)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		m = crashed
	}
}

type silent struct{}

func (silent) Infof(string, ...any)           {}
func (silent) Errorf(string, ...any)          {}
func (silent) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }
