package deadletter

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Filter selects dead letters. The zero value selects all.
type Filter struct {
	Stage        string    // stage that failed
	Reason       string    // part of the error text
	Key          string    // key of the event
	ID           string    // id of the event or of the dead letter
	Partitions   []int32   // of the dead letter topic; nil is all
	Since, Until time.Time // range of event times, from Since to before Until; zero is unlimited
}

// Takes reports whether the filter selects l.
func (f *Filter) Takes(l *Letter) bool {
	return (f.Stage == "" || l.Stage == f.Stage) && strings.Contains(l.Reason, f.Reason) &&
		(f.Key == "" || string(l.Record.Key) == f.Key) && (f.ID == "" || l.Is(f.ID)) && f.reads(l.Record.Partition.Index) &&
		(f.Since.IsZero() || !l.Record.Time.Before(f.Since)) && (f.Until.IsZero() || l.Record.Time.Before(f.Until))
}

// reads reports whether a partition may have dead letters that the filter selects.
func (f *Filter) reads(partition int32) bool {
	return f.Partitions == nil || slices.Contains(f.Partitions, partition)
}

// Empty reports whether the filter selects every dead letter.
func (f *Filter) Empty() bool {
	return f.Stage == "" && f.Reason == "" && f.Key == "" && f.ID == "" && f.Partitions == nil && f.Since.IsZero() && f.Until.IsZero()
}

// Tally counts the dead letters with one stage and one kind of reason.
type Tally struct {
	Stage   string    `json:"stage"`
	Reason  string    `json:"reason"` // with # for each number; "" for kinds beyond talliesMax
	Open    int       `json:"open"`
	Settled int       `json:"settled"`
	First   time.Time `json:"first"` // event times
	Last    time.Time `json:"last"`
}

// talliesMax limits the number of distinct kinds.
const talliesMax = 1000

var numberText = regexp.MustCompile(`-?[0-9]+([.,][0-9]+)*`)

// Tallies counts dead letters by stage and kind of reason. The zero value is ready to use.
type Tallies struct {
	byKind map[[2]string]*Tally
}

// Add counts a dead letter.
func (t *Tallies) Add(l *Letter) {
	if t.byKind == nil {
		t.byKind = map[[2]string]*Tally{}
	}
	kind := [2]string{l.Stage, numberText.ReplaceAllString(l.Reason, "#")}
	if t.byKind[kind] == nil && len(t.byKind) >= talliesMax {
		kind[1] = ""
	}
	at := t.byKind[kind]
	if at == nil {
		at = &Tally{Stage: kind[0], Reason: kind[1], First: l.Record.Time, Last: l.Record.Time}
		t.byKind[kind] = at
	}
	if l.Record.Time.Before(at.First) {
		at.First = l.Record.Time
	}
	if l.Record.Time.After(at.Last) {
		at.Last = l.Record.Time
	}
	if l.Settled {
		at.Settled++
	} else {
		at.Open++
	}
}

// List returns the counts, the most open dead letters first.
func (t *Tallies) List() []Tally {
	list := []Tally{}
	for _, one := range t.byKind {
		list = append(list, *one)
	}
	slices.SortFunc(list, func(a, b Tally) int {
		return cmp.Or(cmp.Compare(b.Open, a.Open), cmp.Compare(b.Settled, a.Settled), cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Reason, b.Reason))
	})
	return list
}
