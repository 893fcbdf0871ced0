package embedded

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/afterbay/afterbay/internal/sys/vfs"
)

// meta is the content of the file META and of its copy: a line of JSON and a line with its
// checksum.
type meta struct {
	Format int    `json:"format"`
	Log    string `json:"log"`   // 16 random bytes, the source of the salt of every checksum
	Clean  uint64 `json:"clean"` // newest frame at the last clean close
	// Epochs lists the epoch that frames from a given seq on carry. It has one entry per Open that
	// wrote frames, as long as these may exist.
	Epochs []epoch `json:"epochs"`
	// Writes counts the writes of META. Versions without a copy of META leave it 0.
	Writes uint64 `json:"writes,omitempty"`

	salt uint32
	lost *DamageError // damage of the other copy, which was not used
}

type epoch struct {
	From  uint64 `json:"from"`
	Epoch uint32 `json:"epoch"`
}

// metaFormat increases when a data directory gets content that older versions cannot read: frames,
// and the state and names of pipelines. Format 1 had other ids, topics and fingerprints.
const metaFormat = 2

// ErrFormat means that another version of Afterbay wrote a data directory.
var ErrFormat = errors.New("another version of afterbay wrote this data directory")

func newMeta() meta {
	id := make([]byte, 16)
	rand.Read(id)
	m := meta{Format: metaFormat, Log: hex.EncodeToString(id)}
	m.salt = saltOf(id)
	return m
}

// saltOf returns a salt that makes frames of other logs invalid in this one. This matters if a
// record contains the bytes of such a frame.
func saltOf(id []byte) uint32 { return crc32.Checksum(id, castagnoli) }

// The file names of META. Both files have the same content. META is written first. Versions without
// a copy use only META.
const metaName, metaCopyName = "META", "META.copy"

// readMeta returns the newest valid META of dir. found is false if dir has none. If META has no
// count of writes, the copy cannot be newer.
func readMeta(fsys vfs.FS, dir string) (m meta, found bool, err error) {
	main, mainLost, err := readMetaFile(fsys, dir, metaName)
	if err != nil {
		return meta{}, false, err
	}
	spare, spareLost, err := readMetaFile(fsys, dir, metaCopyName)
	if err != nil {
		return meta{}, false, err
	}
	switch {
	case mainLost == nil && spareLost == nil && main.Writes > 0 && spare.Writes > main.Writes:
		return spare, true, nil
	case mainLost == nil:
		if spareLost != nil && spareLost.Reason != reasonMissing {
			main.lost = spareLost
		}
		return main, true, nil
	case spareLost == nil:
		spare.lost = mainLost
		return spare, true, nil
	case mainLost.Reason == reasonMissing && spareLost.Reason == reasonMissing:
		return meta{}, false, nil
	}
	mainLost.Reason += fmt.Sprintf("; of %s: %s", metaCopyName, spareLost.Reason)
	return meta{}, false, mainLost
}

// ErrForeign means that a folder holds other files and is not a data directory.
var ErrForeign = errors.New("the folder holds other files and is not a data directory")

// own lists the names of all files that the log, and the processes that use it, create in a data
// directory.
var own = []string{metaName, metaCopyName, metaName + halfSuffix, metaCopyName + halfSuffix,
	"LOCK", "log", "idx", "state", "ADMIN", "kafka", "timings"}

// checkForeign returns ErrForeign if dir has no META and contains foreign files. Three things may
// exist before META: files from a crash of the first Open, files that processes keep beside a log,
// and the folder of file systems.
func checkForeign(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return ignoreMissing(err)
	}
	if slices.Contains(names, metaName) || slices.Contains(names, metaCopyName) {
		return nil
	}
	slices.Sort(names)
	for _, name := range names {
		if name != "lost+found" && !slices.Contains(own, name) {
			return fmt.Errorf("%w: it has %q", ErrForeign, name)
		}
	}
	return nil
}

const reasonMissing = "it is missing"

// readMetaFile reads one of the copies. lost says why it could not be read.
func readMetaFile(fsys vfs.FS, dir, name string) (m meta, lost *DamageError, err error) {
	path := fsys.PathJoin(dir, name)
	bad := func(reason string) (meta, *DamageError, error) {
		return meta{}, &DamageError{Dir: dir, Path: path, Reason: reason}, nil
	}
	b, err := vfs.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return bad(reasonMissing)
	}
	if err != nil {
		return meta{}, nil, err
	}
	line, sum, _ := bytes.Cut(b, []byte("\n"))
	if want := fmt.Sprintf("%08x\n", crc32.Checksum(line, castagnoli)); string(sum) != want {
		return bad("its checksum is wrong")
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return bad(err.Error())
	}
	if m.Format != metaFormat {
		do := "run that version"
		if m.Format < metaFormat {
			do = "use an empty directory and produce the input again"
		}
		return meta{}, nil, fmt.Errorf("%s: %w, in format %d where this one reads %d: %s", path, ErrFormat, m.Format, metaFormat, do)
	}
	id, err := hex.DecodeString(m.Log)
	if err != nil {
		return bad(err.Error())
	}
	m.salt = saltOf(id)
	return m, nil, nil
}

// write replaces META and then its copy, each atomically. So after a crash at any moment, one of
// them holds the last or the previous content, even if the other is damaged.
func (m *meta) write(fsys vfs.FS, dir string) error {
	m.Writes++
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	b := fmt.Appendf(line, "\n%08x\n", crc32.Checksum(line, castagnoli))
	for _, name := range []string{metaName, metaCopyName} {
		if err := writeFile(fsys, fsys.PathJoin(dir, name), bytes.Clone(b)); err != nil { // a vfs.File may modify the written slice
			return err
		}
	}
	m.lost = nil
	return nil
}

// begin adds a random epoch for the frames from seq on. It removes epochs that only apply to frames
// before oldest.
func (m *meta) begin(seq, oldest uint64) uint32 {
	var b [4]byte
	rand.Read(b[:])
	i := sort.Search(len(m.Epochs), func(i int) bool { return m.Epochs[i].From >= seq })
	m.Epochs = append(m.Epochs[:i:i], epoch{seq, binary.LittleEndian.Uint32(b[:])})
	for len(m.Epochs) > 1 && m.Epochs[1].From <= oldest {
		m.Epochs = m.Epochs[1:]
	}
	return m.Epochs[len(m.Epochs)-1].Epoch
}

// has reports whether frame seq of this log carries epoch e.
func (m *meta) has(seq uint64, e uint32) bool {
	i := sort.Search(len(m.Epochs), func(i int) bool { return m.Epochs[i].From > seq })
	return i > 0 && m.Epochs[i-1].Epoch == e
}

// dirLock is the lock of a directory; its Closer may be nil.
type dirLock struct{ io.Closer }

// lockDir locks dir until release. The lock file names the process that holds the lock.
func lockDir(o Options, dir string, readOnly bool) (*dirLock, error) {
	path := o.fs.PathJoin(dir, "LOCK")
	if o.fs != vfs.OS() {
		lock, err := o.fs.Lock(path)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrLocked, err)
		}
		return &dirLock{lock}, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	how, writable := unix.LOCK_EX, true
	if readOnly && (errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS)) {
		how, writable = unix.LOCK_SH, false
		f, err = os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil // no process has opened the directory, and none can now
		}
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != nil {
		owner := make([]byte, 32)
		n, _ := f.ReadAt(owner, 0)
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("%w: by process %s", ErrLocked, strings.TrimSpace(string(owner[:n])))
		}
		return nil, errors.Join(err, f.Close())
	}
	if !writable {
		return &dirLock{f}, nil
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &dirLock{f}, nil
}

func (l *dirLock) release() error {
	if l == nil {
		return nil
	}
	return l.Close()
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
