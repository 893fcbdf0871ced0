package afterbay

import (
	"slices"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/process/builtin"
)

// File is a pipeline file that is right as it is written. What it says is checked by New.
type File struct {
	Pipelines []Pipeline // one a document, in the order of the file

	read *lang.File
}

// Load reads a pipeline file of at most 1 MiB, the environment variables that it names,
// and the manifests of its models. Paths in the file are relative to its folder. The file
// may name the functions, models and kinds of code. An error has file, line, column and
// field of all that is wrong, and says what to do next.
func Load(path string, code Code) (*File, error) {
	kinds, err := builtin.Kinds().With(code)
	if err != nil {
		return nil, err
	}
	read, err := lang.Load(path, kinds)
	if err != nil {
		return nil, err
	}
	return fileOf(read, code), nil
}

// Parse is Load of a text: of a file that go:embed put into the program, or of JSON, which
// is YAML, that the program made. Messages name it filename, and paths in it are relative
// to the folder of filename. No environment variable is set: a text that names one without
// a default is an error.
func Parse(filename string, text []byte, code Code) (*File, error) {
	kinds, err := builtin.Kinds().With(code)
	if err != nil {
		return nil, err
	}
	read, err := lang.ParseBeside(filename, text, kinds)
	if err != nil {
		return nil, err
	}
	return fileOf(read, code), nil
}

func fileOf(read *lang.File, code Code) *File {
	f := &File{slices.Clone(read.Pipelines), read}
	for i := range f.Pipelines {
		f.Pipelines[i].Code = code
	}
	return f
}

// New is New of the pipeline at an index of Pipelines. An error in what the file says has
// file, line, column and field.
func (f *File) New(index int, o Options) (*Runner, error) {
	runner, err := New(f.Pipelines[index], o)
	if err != nil {
		return nil, f.read.Explain(index, err)
	}
	return runner, nil
}
