package bench

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
)

// profile is a file for a profile of the CPU while events are measured; nil is none. The
// time before, when the log is filled and warmed up, is left out.
type profile struct {
	file *os.File
	on   bool
}

// newProfile makes the file of a name; "" is none.
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

// begin begins, or begins anew, and returns what was used until then.
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

// end returns what was used until now.
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
