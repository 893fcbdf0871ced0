package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	adminapi "github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/stream"
)

const (
	lockedWait = 2 * time.Second // a process that starts or ends is neither locked out nor reachable for a moment
	lockedTry  = 50 * time.Millisecond
)

// openLog opens the log of a data directory.
func (a *app) openLog(dir string) (*embedded.Log, error) {
	log, err := embedded.Open(dir, embedded.Options{Logger: a.log})
	if err != nil {
		return nil, directoryError(err, dir)
	}
	return log, nil
}

// directoryError gives an error of a data directory its exit code and what to do.
func directoryError(err error, dir string) error {
	var damage *embedded.DamageError
	switch {
	case errors.Is(err, embedded.ErrLocked):
		return &exitError{exitLocked, fmt.Errorf("%w: end that process, or choose another directory with --data", err)}
	case errors.Is(err, embedded.ErrForeign):
		return usage("%w: name an empty or a new folder with --data, or a data directory", err)
	case errors.As(err, &damage):
		return &exitError{exitDamaged, fmt.Errorf("%w; or restore the directory from a copy, or start with another one by --data", err)}
	}
	return &exitError{exitDamaged, fmt.Errorf("%w: %s", err, directoryHint(err, dir))}
}

// directoryHint says what to do about a data directory that cannot be opened.
func directoryHint(err error, dir string) string {
	const other = ", or choose another directory with --data"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "free disk space" + other
	case errors.Is(err, syscall.EROFS):
		return "the file system is mounted read-only: mount it for writing" + other
	case errors.Is(err, fs.ErrPermission):
		return permissionHint(dir) + other
	case errors.Is(err, embedded.ErrIrregular), errors.Is(err, syscall.ENOTDIR):
		return "see what is at that path" + other
	}
	return "see what afterbay doctor " + shellWord(dir) + " says" + other
}

// permissionHint says what to do if this user may not use a data directory. Only its
// owner may.
func permissionHint(dir string) string {
	about, err := os.Stat(dir)
	if err != nil {
		return "give this user the right to read and write the directory"
	}
	owner, ok := about.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) == os.Geteuid() {
		return "give this user the right to read and write the directory"
	}
	name := fmt.Sprint("#", owner.Uid) // as sudo takes a number
	if u, err := user.LookupId(fmt.Sprint(owner.Uid)); err == nil {
		name = u.Username
	}
	return fmt.Sprintf("the directory belongs to the user %s, who alone may read it: run the command as that user (sudo -u %s afterbay ...), or ask its process with --url", name, shellWord(name))
}

// unwritable reports whether a directory can be read at most.
func unwritable(err error) bool {
	return errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission)
}

// open returns the log of the engine, which pipelines may name, or the data
// directory: the log itself or, where a process holds it, that process. The
// function returned closes it. A directory that is not there is made where create
// is set.
func (f *directoryFlags) open(a *app, create bool, pipelines ...pipeline) (adminapi.Directory, func() error, error) {
	if f.URL != "" {
		if !strings.HasPrefix(f.URL, "http://") && !strings.HasPrefix(f.URL, "https://") {
			return nil, nil, usage("--url %s: use http://host:port", f.URL)
		}
		return &adminapi.Client{URL: f.URL, Token: f.Token}, func() error { return nil }, nil
	}
	engine, err := f.resolve(pipelines)
	if err != nil {
		return nil, nil, err
	}
	f.engine = engine
	if engine.shared() {
		log, err := a.openEngine(engine, stream.Process{})
		if err != nil {
			return nil, nil, err
		}
		return a.local(log)
	}
	if !create && !isDirectory(f.Data) {
		return nil, nil, &exitError{exitFailure, fmt.Errorf("%s is no data directory: name one with --data, or make one with afterbay run, or with afterbay produce --partitions N", f.Data)}
	}
	for deadline := time.Now().Add(lockedWait); ; {
		log, err := a.openEngine(engine, stream.Process{Dir: f.Data})
		if unwritable(err) {
			if log, err = a.openEngine(engine, stream.Process{Dir: f.Data, ReadOnly: true}); err == nil {
				a.log.Info("the data directory is read-only: it is read as it is", "dir", f.Data)
			}
		}
		if err == nil {
			return a.local(log)
		}
		if !errors.Is(err, embedded.ErrLocked) {
			return nil, nil, err
		}
		client, adminErr := reach(a.ctx, f.Data)
		if adminErr == nil {
			return client, func() error { return nil }, nil
		}
		if time.Now().After(deadline) || a.ctx.Err() != nil {
			if errors.Is(adminErr, fs.ErrNotExist) {
				return nil, nil, fmt.Errorf("%w, which does not answer: it is starting or ending, or has no server (--listen none). Try again in a moment", err)
			}
			return nil, nil, fmt.Errorf("%w; it does not answer either: %w", err, adminErr)
		}
		time.Sleep(lockedTry)
	}
}

// process returns the process that is meant. Where there is none, unknown is the error.
func (f *directoryFlags) process(a *app, unknown error) (*adminapi.Client, error) {
	directory, closeDirectory, err := f.open(a, false)
	if err != nil {
		return nil, err
	}
	if client, ok := directory.(*adminapi.Client); ok {
		return client, nil // which holds nothing
	}
	return nil, errors.Join(unknown, closeDirectory())
}

// local returns what works with a log itself.
func (a *app) local(log adminapi.Log) (adminapi.Directory, func() error, error) {
	names, err := generation.Open(a.ctx, log)
	if err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	return &adminapi.Local{Log: names}, log.Close, nil
}

// isDirectory reports whether dir is a data directory: META or its copy is there.
func isDirectory(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "META"))
	_, errCopy := os.Stat(filepath.Join(dir, "META.copy"))
	return !errors.Is(err, fs.ErrNotExist) || !errors.Is(errCopy, fs.ErrNotExist)
}

// reach finds the process that holds a data directory.
func reach(ctx context.Context, dir string) (*adminapi.Client, error) {
	admin, err := adminapi.ReadAdmin(dir)
	if err != nil {
		return nil, err
	}
	client, err := admin.Client()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockedWait)
	defer cancel()
	status, err := client.Status(ctx)
	var refused *adminapi.StatusError
	switch {
	case err == nil && status.PID == admin.PID:
		return client, nil
	case err == nil, errors.As(err, &refused):
		return nil, fmt.Errorf("another process answers at %s", admin.Address)
	}
	return nil, err
}
