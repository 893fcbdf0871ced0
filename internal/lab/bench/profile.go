package bench

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
)

// profile is a file for a CPU profile of the measured time; nil writes no profile. It excludes the
// time before, when the log is filled and warmed up.
type profile struct {
	file *os.File
	on   bool
}

// newProfile creates the profile file, or returns nil for the name "".
func newProfile(name string) (*profile, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("%w: name a file with --cpu-profile", err)
	}
	return &profile{file: f}, nil
}

// begin starts or restarts the profile, and returns the resource use of the process so far.
func (p *profile) begin() (usageOf, error) {
	if p == nil {
		return usageNow(), nil
	}
	p.end()
	_, err := p.file.Seek(0, 0)
	if err = errors.Join(err, p.file.Truncate(0)); err == nil {
		err = pprof.StartCPUProfile(p.file)
	}
	p.on = err == nil
	return usageNow(), err
}

// end stops the profile, and returns the resource use of the process so far.
func (p *profile) end() usageOf {
	used := usageNow()
	if p != nil && p.on {
		p.on = false
		pprof.StopCPUProfile()
	}
	return used
}

func (p *profile) close() error {
	if p == nil {
		return nil
	}
	p.end()
	return p.file.Close()
}
