package process

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/sys/procfs"
)

const (
	frameBytesMax = 64 << 20 // largest answer
	wordsBytesMax = 2 << 10  // so that its end fits the reason of a dead letter
	memoryPeriod  = 100 * time.Millisecond
)

// worker is a running process. One goroutine owns it and calls end or quit once. The process is
// reaped last, so that no other process can have its pid while this one may still be killed.
type worker struct {
	command       *exec.Cmd
	stdin, stdout *os.File
	words         *words
	frames        chan frame    // its output and, at last, why the output ended
	stopped       chan struct{} // closed by end
	group         sync.WaitGroup
	overgrown     atomic.Int64 // resident bytes at the kill for overgrowth, or 0
}

type frame struct {
	data []byte
	err  error
}

// errEnded is the reason when a worker closed its stdout.
var errEnded = errors.New("it ended")

// spawn starts a process and the goroutines that read and watch it.
func spawn(o *Options) (*worker, error) {
	w := &worker{
		command: exec.Command(o.Command[0], o.Command[1:]...), words: &words{also: o.Stderr},
		frames: make(chan frame), stopped: make(chan struct{}),
	}
	theirIn, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stdout, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), stdin.Close())
	}
	w.stdin, w.stdout = stdin, stdout
	c := w.command
	c.Dir, c.Env = o.Dir, append(environment(o.Variables), o.Env...)
	c.Stdin, c.Stdout, c.Stderr = theirIn, theirOut, w.words
	c.WaitDelay = time.Second // for stderr, if a child of the worker outlives it
	apart(c)
	err = c.Start()
	theirIn.Close()
	theirOut.Close()
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), stdout.Close())
	}
	w.group.Go(w.read)
	w.group.Go(func() { w.watch(o.MemoryBytesMax) })
	return w, nil
}

// ownVariables is the prefix of the engine's own variables.
const ownVariables = "AFTERBAY_"

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// environment returns the variables that every program needs, and those in names. Other variables
// may hold secrets.
func environment(names []string) []string {
	var list []string
	for _, name := range append([]string{"PATH", "HOME", "LANG", "TMPDIR"}, names...) {
		if value, ok := os.LookupEnv(name); ok {
			list = append(list, name+"="+value)
		}
	}
	return list
}

// read passes on frames until there are no more.
func (w *worker) read() {
	in := bufio.NewReaderSize(w.stdout, 64<<10)
	for {
		var f frame
		f.data, f.err = readFrame(in)
		select {
		case w.frames <- f:
		case <-w.stopped:
			return
		}
		if f.err != nil {
			return
		}
	}
}

func readFrame(in *bufio.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, errEnded
	}
	length := binary.LittleEndian.Uint32(head[:])
	if length > frameBytesMax {
		return nil, fmt.Errorf("it wrote %q to stdout, which is for answers of at most %d bytes behind their length", head, frameBytesMax)
	}
	data := make([]byte, length)
	if _, err := io.ReadFull(in, data); err != nil {
		return nil, fmt.Errorf("%w within an answer", errEnded)
	}
	return data, nil
}

// setLength writes the length of the rest to the first four bytes.
func setLength(frame []byte) { binary.LittleEndian.PutUint32(frame, uint32(len(frame)-4)) }

// send writes a frame. If the write fails because the worker ended, the next frame in frames
// reports its end.
func (w *worker) send(frame []byte, deadline time.Time) error {
	_ = w.stdin.SetWriteDeadline(deadline) // if pipes have no deadline, end closes them
	_, err := w.stdin.Write(frame)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("it did not read its request in time")
	}
	return nil
}

// watch kills a worker when its memory passes max.
func (w *worker) watch(max int64) {
	tick := time.NewTicker(memoryPeriod)
	defer tick.Stop()
	for {
		select {
		case <-w.stopped:
			return
		case <-tick.C:
		}
		// Memory returns 0 if the system does not report it.
		if bytes, _ := procfs.Memory(w.command.Process.Pid, "VmRSS"); bytes > max {
			w.overgrown.Store(bytes)
			kill(w.command.Process)
			return
		}
	}
}

// end kills the process, waits for all of it, and returns the reason with its last output.
func (w *worker) end(why error) error {
	w.halt()
	status := w.command.Wait()
	if errors.Is(why, errClosed) {
		return why
	}
	switch bytes := w.overgrown.Load(); {
	case bytes > 0:
		why = fmt.Errorf("it had %d MiB of memory, more than it may", bytes>>20)
	case errors.Is(why, errEnded) && status != nil:
		why = fmt.Errorf("%w: %w", why, status)
	case errors.Is(why, errEnded):
		why = fmt.Errorf("%w: exit status 0", why)
	}
	if text := w.words.String(); text != "" {
		return fmt.Errorf("%w; its last words: %s", why, text)
	}
	return fmt.Errorf("%w; it wrote nothing to stderr", why)
}

func (w *worker) halt() {
	kill(w.command.Process)
	close(w.stopped)
	w.stdin.Close()
	w.stdout.Close()
	w.group.Wait()
}

// quit gives an idle process some time to exit.
func (w *worker) quit() error {
	w.stdin.Close()
	timer := time.NewTimer(quitTime)
	defer timer.Stop()
	for {
		select {
		case f := <-w.frames:
			if f.err == nil {
				continue
			}
		case <-timer.C:
		}
		return w.end(errClosed)
	}
}

// words keeps the end of the text written to it.
type words struct {
	also io.Writer
	mu   sync.Mutex
	text []byte // the end of the text, at most twice wordsBytesMax
}

// Write keeps text and never fails, so that its log cannot stop a worker.
func (w *words) Write(text []byte) (int, error) {
	if w.also != nil {
		_, _ = w.also.Write(text)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text[max(0, len(text)-wordsBytesMax):]...)
	if len(w.text) > 2*wordsBytesMax {
		w.text = append(w.text[:0], w.text[len(w.text)-wordsBytesMax:]...)
	}
	return len(text), nil
}

// String returns the last wordsBytesMax bytes, from the start of a character.
func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := w.text[max(0, len(w.text)-wordsBytesMax):]
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(text), "\uFFFD"))
}
