package compile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/observe/profile"
)

// openProfile reads the profile of a model.
func (o *opening) openProfile(path string, m *lang.Model) {
	data, err := readProfile(m.Profile.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		o.Fail(path+".file", "%v", err)
		o.Hint("name a file that is there, relative to the pipeline file; afterbay dataset --profile writes it")
		return
	case err != nil:
		o.Fail(path+".file", "%v", err)
		o.Hint("name a file that afterbay dataset --profile wrote")
		return
	}
	if sum := profile.Sum(data); sum != m.Profile.Digest {
		o.Fail(path+".sha256", "%s has sha256 %s", m.Profile.File, sum)
		o.Hint("restore the original file, or write its sha256 here if it was reviewed")
		return
	}
	reference, err := profile.DecodeReference(data)
	switch {
	case err != nil:
		o.Fail(path+".file", "%s is no profile: %v", m.Profile.File, err)
		o.Hint("write it again with afterbay dataset --profile, and do not edit it")
	case reference.Model != m.Name:
		o.Fail(path+".file", "%s is the profile of model %s", m.Profile.File, reference.Model)
		o.Hint("name the profile of model " + m.Name)
	default:
		o.Profiles[m.Name] = reference
	}
}

// readProfile reads a regular file of at most profile.ReferenceMax bytes.
func readProfile(path string) ([]byte, error) {
	about, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !about.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, profile.ReferenceMax+1))
	if err == nil && len(data) > profile.ReferenceMax {
		err = fmt.Errorf("%s has more than %d bytes", path, profile.ReferenceMax)
	}
	return data, err
}
