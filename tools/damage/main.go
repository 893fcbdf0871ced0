// Command damage flips bits in the directories of embedded stores. It does so for a process that
// was killed and for one that closed its store. It prints the outcomes for their acknowledged
// records. Run it in this folder: go run .
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Each commit writes this many records, atomically, and is synced.
const (
	commits = 300
	records = 10
)

// store is one of the stores under test.
type store struct {
	name string
	// write opens the store in dir and makes the commits; closing closes it.
	write func(dir string) (closing func() error, err error)
	// read reopens the store and returns its records, and whether opening reported a cut.
	read func(dir string, seen func(commit, record int, value string)) (reported bool, err error)
}

var stores = []store{afterbayStore, pebbleStore, badgerStore, bboltStore, sqliteStore}

func key(commit, record int) string { return fmt.Sprintf("%06d-%02d", commit, record) }

func value(commit, record int) string {
	return fmt.Sprintf("value %d %d %s", commit, record, strings.Repeat(string(rune('a'+commit%26)), 100))
}

// The outcomes, in the order of the columns.
var outcomes = []string{"no effect", "open refuses", "a read is refused", "newest commit cut, said so", "newest commit cut, silent", "older commits lost, SILENT", "wrong or half data, SILENT", "process dies", "hangs"}

func main() {
	flips := flag.Int("flips", 200, "flips for each store and directory")
	seed := flag.Uint64("seed", 0, "0 draws one")
	child := flag.String("check", "", "store,folder to check; what the program runs itself with")
	flag.Parse()
	if *child != "" {
		name, dir, _ := strings.Cut(*child, ",")
		i := slices.IndexFunc(stores, func(s store) bool { return s.name == name })
		fmt.Println(check(stores[i], dir))
		return
	}
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	fmt.Printf("seed %d, %d flips each\n\n| store | directory | %s |\n|---|---|%s\n", *seed, *flips, strings.Join(outcomes, " | "), strings.Repeat("---|", len(outcomes)))
	rng := rand.New(rand.NewPCG(*seed, 1))
	for _, s := range stores {
		if err := measure(s, *flips, rng); err != nil {
			fmt.Fprintln(os.Stderr, s.name+":", err)
			os.Exit(1)
		}
	}
}

// measure prints two rows.
func measure(s store, flips int, rng *rand.Rand) error {
	root, err := os.MkdirTemp("", "damage")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	live, killed := filepath.Join(root, "live"), filepath.Join(root, "killed")
	if err := os.Mkdir(live, 0o755); err != nil {
		return err
	}
	closing, err := s.write(live)
	if err != nil {
		return err
	}
	if err := errors.Join(os.CopyFS(killed, os.DirFS(live)), closing()); err != nil {
		return err
	}
	for _, dir := range []string{killed, live} {
		if got := run(s, dir, filepath.Join(root, "whole"), "", 0, 0); got != outcomes[0] {
			return fmt.Errorf("%s without a flip: %s", dir, got)
		}
		counts := map[string]int{}
		files, err := filesOf(dir)
		if err != nil {
			return err
		}
		for range flips {
			file := files[rng.IntN(len(files))]
			counts[run(s, dir, filepath.Join(root, "flipped"), file.path, file.at(rng), byte(1)<<rng.IntN(8))]++
		}
		row := fmt.Sprintf("| %s | %s", s.name, map[bool]string{true: "closed", false: "killed"}[dir == live])
		for _, o := range outcomes {
			row += fmt.Sprintf(" | %d", counts[o])
		}
		fmt.Println(row + " |")
	}
	return nil
}

// file is a file and the positions of its non-zero bytes.
type file struct {
	path string
	used []int64
}

func (f file) at(rng *rand.Rand) int64 { return f.used[rng.IntN(len(f.used))] }

// filesOf returns the files that are not empty. Each is equally likely to be hit, so that small
// files are hit too.
func filesOf(dir string) (files []file, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "LOCK" {
			return err
		}
		b, err := os.ReadFile(path)
		f := file{path: strings.TrimPrefix(path, dir+"/")}
		for i := range b {
			if b[i] != 0 {
				f.used = append(f.used, int64(i))
			}
		}
		if len(f.used) > 0 {
			files = append(files, f)
		}
		return err
	})
	return files, err
}

// run copies dir, flips a bit of the copy, and checks the copy in a separate process.
func run(s store, dir, to, path string, at int64, bit byte) string {
	if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(dir))); err != nil {
		return err.Error()
	}
	if path != "" {
		if err := flip(filepath.Join(to, path), at, bit); err != nil {
			return err.Error()
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-check", s.name+","+to)
	out, err := cmd.Output()
	said := strings.TrimSpace(string(out))
	said = said[strings.LastIndexByte(said, '\n')+1:]
	switch {
	case ctx.Err() != nil:
		return "hangs"
	case err != nil || !slices.Contains(outcomes, said):
		return "process dies"
	}
	return said
}

func flip(path string, at int64, bit byte) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	var b [1]byte
	if _, err = f.ReadAt(b[:], at); err == nil {
		b[0] ^= bit
		_, err = f.WriteAt(b[:], at)
	}
	return errors.Join(err, f.Close())
}

var errOpen = errors.New("open")

// check reads the store and compares.
func check(s store, dir string) string {
	have := make([]int, commits)
	wrong := false
	reported, err := s.read(dir, func(c, r int, v string) {
		if c < 0 || c >= commits || v != value(c, r) {
			wrong = true
			return
		}
		have[c]++
	})
	lost, half := 0, false
	for _, n := range have {
		if n == 0 {
			lost++
		} else if n != records {
			half = true
		}
	}
	switch {
	case errors.Is(err, errOpen):
		return outcomes[1]
	case err != nil:
		return outcomes[2]
	case wrong || half:
		return outcomes[6]
	case lost == 0:
		return outcomes[0]
	case lost == 1 && have[commits-1] == 0 && reported:
		return outcomes[3]
	case lost == 1 && have[commits-1] == 0:
		return outcomes[4]
	}
	return outcomes[5]
}
