package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/stream"
)

const (
	lockedWait = 2 * time.Second // a starting or ending process may hold the lock without being reachable for a moment
	lockedTry  = 50 * time.Millisecond
)

// OpenDirectory opens the log of a data directory.
func OpenDirectory(dir string, logger *slog.Logger) (*embedded.Log, error) {
	log, err := embedded.Open(dir, embedded.Options{Logger: logger})
	if err != nil {
		return nil, flags.directoryError(err, dir)
	}
	return log, nil
}

// Attach returns the log of an engine. If another process holds the data directory, Attach connects
// to that process. The returned function closes the log or connection. If create is set, Attach
// creates a missing directory.
func (e *Engine) Attach(ctx context.Context, logger *slog.Logger, data string, create bool) (inspect.Directory, func() error, error) {
	if e.Shared() {
		log, err := e.Open(ctx, logger, stream.Process{})
		if err != nil {
			return nil, nil, err
		}
		return local(ctx, log)
	}
	if !create && !IsDirectory(data) {
		return nil, nil, fmt.Errorf("%s is not a data directory: name one with --data, or make one with afterbay run, or with afterbay produce --partitions N", data)
	}
	for deadline := time.Now().Add(lockedWait); ; {
		log, err := e.Open(ctx, logger, stream.Process{Dir: data})
		if unwritable(err) {
			if log, err = e.Open(ctx, logger, stream.Process{Dir: data, ReadOnly: true}); err == nil {
				logger.Info("the data directory is read-only: the command changes nothing in it", "dir", data)
			}
		}
		if err == nil {
			return local(ctx, log)
		}
		if !errors.Is(err, embedded.ErrLocked) {
			return nil, nil, err
		}
		client, adminErr := Reach(ctx, data)
		if adminErr == nil {
			return client, func() error { return nil }, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			if errors.Is(adminErr, fs.ErrNotExist) {
				return nil, nil, fmt.Errorf("%w; that process does not answer: it is starting or stopping, or has no server (--listen none). Try again in a moment", err)
			}
			return nil, nil, fmt.Errorf("%w; it does not answer either: %w", err, adminErr)
		}
		time.Sleep(lockedTry)
	}
}

// hints holds advice for errors of a data directory.
type hints struct {
	locked, foreign, damaged, other string
	own                             string // for a folder of a shared log that another process holds
	owner                           string // format with the owner of the directory, as a user name and as a shell word
}

// On the command line a flag names a directory. In a Go program a call does.
var (
	flags = hints{
		locked:  "end that process, or choose another directory with --data",
		foreign: "name an empty or a new folder with --data, or a data directory",
		damaged: "or restore the directory from a copy, or start with another one by --data",
		other:   "choose another directory with --data",
		own:     "end that process, or give this process another folder with --data",
		owner:   "only the user %s, its owner, may read the directory: run the command as that user (sudo -u %s afterbay ...), or ask its process with --url",
	}
	calls = hints{
		locked:  "end that process, call Open with another directory, or set Options.Attach to work through that process",
		foreign: "call Open with an empty or a new folder, or a data directory",
		damaged: "or restore the directory from a copy, or call Open with another one",
		other:   "call Open with another directory",
		own:     "end that process, or set Options.Data to another folder",
		owner:   "only the user %s, its owner, may read the directory: run the program as that user (sudo -u %s ...)",
	}
)

// directoryError adds the reason and advice to an error of a data directory.
func (h *hints) directoryError(err error, dir string) error {
	var damage *embedded.DamageError
	switch {
	case errors.Is(err, embedded.ErrLocked):
		return failure.Locked(fmt.Errorf("%w: %s", err, h.locked))
	case errors.Is(err, embedded.ErrForeign):
		return failure.Usage("%w: %s", err, h.foreign)
	case errors.As(err, &damage):
		return failure.Directory(fmt.Errorf("%w; %s", err, h.damaged))
	}
	return failure.Directory(fmt.Errorf("%w: %s", err, h.directory(err, dir)))
}

// DirectoryHint returns advice for a data directory that cannot be opened, for users of the command
// line.
func DirectoryHint(err error, dir string) string { return flags.directory(err, dir) }

// directory returns advice for a data directory that cannot be opened.
func (h *hints) directory(err error, dir string) string {
	other := ", or " + h.other
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "free disk space" + other
	case errors.Is(err, syscall.EROFS):
		return "the file system is mounted read-only: mount it for writing" + other
	case errors.Is(err, fs.ErrPermission):
		return h.permission(dir) + other
	case errors.Is(err, embedded.ErrIrregular), errors.Is(err, syscall.ENOTDIR):
		return "check the files at that path" + other
	}
	return "see what afterbay doctor " + ShellWord(dir) + " says" + other
}

// permission returns advice if this user may not use a data directory. Only its owner may.
func (h *hints) permission(dir string) string {
	about, err := os.Stat(dir)
	if err != nil {
		return "give this user the right to read and write the directory"
	}
	owner, ok := about.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) == os.Geteuid() {
		return "give this user the right to read and write the directory"
	}
	name := fmt.Sprint("#", owner.Uid) // the form that sudo takes for a number
	if u, err := user.LookupId(fmt.Sprint(owner.Uid)); err == nil {
		name = u.Username
	}
	return fmt.Sprintf(h.owner, name, ShellWord(name))
}

// unwritable reports whether err means that a directory cannot be written.
func unwritable(err error) bool {
	return errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission)
}

// local returns a Directory that works with a log itself.
func local(ctx context.Context, log inspect.Log) (inspect.Directory, func() error, error) {
	names, err := generation.Open(ctx, log)
	if err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	return &inspect.Local{Log: names}, log.Close, nil
}

// Held reports whether err means that another process holds a data directory.
func Held(err error) bool { return errors.Is(err, embedded.ErrLocked) }

// IsDirectory reports whether dir is a data directory: it has META or its copy.
func IsDirectory(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "META"))
	_, errCopy := os.Stat(filepath.Join(dir, "META.copy"))
	return !errors.Is(err, fs.ErrNotExist) || !errors.Is(errCopy, fs.ErrNotExist)
}

// Reach connects to the process that holds a data directory.
func Reach(ctx context.Context, dir string) (*admin.Client, error) {
	held, err := admin.ReadAdmin(dir)
	if err != nil {
		return nil, err
	}
	client, err := held.Client()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockedWait)
	defer cancel()
	status, err := client.Status(ctx)
	var refused *admin.StatusError
	switch {
	case err == nil && status.PID == held.PID:
		return client, nil
	case err == nil, errors.As(err, &refused):
		return nil, fmt.Errorf("another process answers at %s", held.Address)
	}
	return nil, err
}

// ShellWord quotes a name so that a shell reads it as one word.
func ShellWord(name string) string {
	if strings.ContainsAny(name, " \t\n'\"\\$&|;<>()*?[]#~`!{}") {
		return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	return name
}

// CheckError adds a class and advice to an error of a check of a data directory.
func CheckError(err error, dir string) error {
	switch {
	case errors.Is(err, embedded.ErrLocked):
		return failure.As(failure.OfLock, fmt.Errorf("%w: end that process first", err))
	case errors.Is(err, fs.ErrNotExist):
		return failure.As(failure.OfRun, fmt.Errorf("%w: name one", err))
	}
	return failure.As(failure.OfDirectory, fmt.Errorf("%w: %s", err, DirectoryHint(err, dir)))
}
