package generation

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/stream"
)

// Fingerprint identifies the behaviour of a pipeline with hashes of canonical text.
type Fingerprint struct {
	Pipeline string
	Outputs  string // hash of the parts that decide outputs: a change begins a new generation
	Order    string // hash of the order of the steps and of a row's values: events in the async queue can only be used under the same order
	State    []Kept // stored parts of the state; features are in the order of their cells
}

// Kept is a part of the state. Hash is that of the text that decides its meaning.
type Kept struct{ Kind, Name, Hash string }

// KeptOf returns a part of the state; meaning is the text that decides its meaning.
func KeptOf(kind, name, meaning string) Kept { return Kept{kind, name, Hash(meaning)[:16]} }

// Hash returns the hash of a text in the form that fingerprints use.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// The kinds of Kept. A pipeline must have the same features and inputs as a state. The cells of
// features have no names, so the order of features must be the same too.
const (
	KindFeature  = "feature"
	KindInput    = "input" // keys and times
	KindDedupe   = "dedupe"
	KindGroup    = "group"
	KindJoin     = "join"
	KindFunction = "function"
	KindTable    = "table"
)

// Change is the difference between a pipeline and the pipeline that wrote a state.
type Change uint8

// The possible differences.
const (
	Same       Change = iota
	NewOrder          // same outputs, but another order of steps
	NewOutputs        // outputs may differ
)

// Queued says which pipeline stored the events of the async queue, and what to do. It returns "" if
// the events can be used.
func (c Change) Queued() string {
	switch c {
	case NewOrder:
		return "by a version of afterbay that runs the steps in another order: run that version"
	case NewOutputs:
		return "before its file was changed: run the earlier file"
	}
	return ""
}

// A fingerprint is stored as lines. The first has its version and the hashes of outputs and order.
// A line per part of the state follows, with kind, hash and quoted name.
const (
	version = "1"
	none    = "-"  // replaces the hash of outputs: the state was copied and has no outputs yet
	noState = "1*" // replaces the fingerprint: nothing was stored yet
)

// ErrNewFormat means that a newer version stored the fingerprint.
var ErrNewFormat = errors.New("a newer version of afterbay wrote this state: run that version")

func (f *Fingerprint) append(dst []byte) []byte {
	dst = fmt.Appendf(dst, "%s %s %s", version, f.Outputs, f.Order)
	for _, k := range f.State {
		dst = fmt.Appendf(dst, "\n%s %s %q", k.Kind, k.Hash, k.Name)
	}
	return dst
}

// parseFingerprint decodes the result of append. For noState it returns empty hashes.
func parseFingerprint(data []byte) (f Fingerprint, err error) {
	if string(data) == noState {
		return f, nil
	}
	lines := strings.Split(string(data), "\n")
	head := strings.Split(lines[0], " ")
	if len(head) == 2 && len(lines) == 1 && (len(head[0]) == 32 || head[0] == "*") {
		return f, stream.ErrOldFormat // two hashes without a version
	}
	if n, err := strconv.Atoi(head[0]); err == nil && n > 1 && len(head[0]) < 4 {
		return f, ErrNewFormat
	}
	if len(head) != 3 || head[0] != version {
		return f, errDamaged
	}
	f.Outputs, f.Order = head[1], head[2]
	for _, line := range lines[1:] {
		parts := strings.SplitN(line, " ", 3)
		if len(parts) < 3 {
			return f, errDamaged
		}
		name, err := strconv.Unquote(parts[2])
		if err != nil {
			return f, errDamaged
		}
		f.State = append(f.State, Kept{parts[0], name, parts[1]})
	}
	return f, nil
}

// differs describes the part of the stored state that the pipeline cannot use, or returns "".
func (f *Fingerprint) differs(stored *Fingerprint) string {
	if stored.Order == "" {
		return "" // no state yet
	}
	for _, k := range f.State {
		switch at := k.in(stored); {
		case at >= 0 && stored.State[at].Hash != k.Hash:
			return "another " + k.String()
		case at < 0 && k.strict():
			return "no " + k.String()
		}
	}
	for _, k := range stored.State {
		if k.in(f) < 0 && k.strict() {
			return "the " + k.String() + ", which the file lacks"
		}
	}
	if had := stored.features(); !slices.Equal(had, f.features()) {
		return "features in another order: " + strings.Join(had, ", ")
	}
	return ""
}

// in returns the index of the part in another fingerprint, or -1.
func (k *Kept) in(f *Fingerprint) int {
	return slices.IndexFunc(f.State, func(o Kept) bool { return o.Kind == k.Kind && o.Name == k.Name })
}

func (k *Kept) strict() bool { return k.Kind == KindFeature || k.Kind == KindInput }

func (f *Fingerprint) features() (names []string) {
	for _, k := range f.State {
		if k.Kind == KindFeature {
			names = append(names, k.Name)
		}
	}
	return names
}

// String returns the kind and the name.
func (k Kept) String() string { return fmt.Sprintf("%s %q", k.Kind, k.Name) }
