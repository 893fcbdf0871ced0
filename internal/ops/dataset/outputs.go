package dataset

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/sys/replace"
)

// outputs are the files that the command writes.
type outputs struct {
	rows, manifest *replace.File
	profile        *replace.File // nil if none is written
}

// create opens the new files.
func (w *writer) create() (*outputs, error) {
	var out outputs
	var err error
	if out.rows, err = replace.Create(w.Out, 0o666); err == nil {
		out.manifest, err = replace.Create(manifestOf(w.Out), 0o666)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: name a file that can be written with --out", err), out.close())
	}
	if w.profiler == nil {
		return &out, nil
	}
	if err = w.sparesOutputs(); err == nil {
		if out.profile, err = replace.Create(w.Profile, 0o666); err != nil {
			err = fmt.Errorf("%w: name a file that can be written with --profile", err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, out.close())
	}
	return &out, nil
}

// sparesOutputs returns an error if the profile would replace a file that the command reads, or
// another one that it writes.
func (w *writer) sparesOutputs() error {
	if input := sameFile(w.Profile, w.inputs()); input != "" {
		return failure.Usage("--profile %s would replace %s, which is read: name another file", w.Profile, input)
	}
	for _, other := range []string{w.Out, manifestOf(w.Out)} {
		if filepath.Clean(w.Profile) == filepath.Clean(other) || sameFile(w.Profile, []string{other}) != "" {
			return failure.Usage("--profile %s is a file of --out too: name another file", w.Profile)
		}
	}
	return nil
}

func (o *outputs) all() (list []*replace.File) {
	for _, file := range []*replace.File{o.manifest, o.profile, o.rows} {
		if file != nil {
			list = append(list, file)
		}
	}
	return list
}

// commit replaces the files.
//
// The manifest is committed first, and the rows last. A file of rows therefore always has a
// manifest. If the program is killed in between, the digests in the manifest do not match the other
// files, or these do not exist.
func (o *outputs) commit() error {
	for _, file := range o.all() {
		if err := file.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// close discards what was not committed.
func (o *outputs) close() (err error) {
	for _, file := range o.all() {
		err = errors.Join(err, file.Close())
	}
	return err
}
