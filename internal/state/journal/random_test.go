package journal

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/test/seeds"
)

// world is a journal, the calls under way and what must be true of both.
type world struct {
	t       *testing.T
	random  *rand.Rand
	spec    Spec
	state   store
	journal *Journal

	pendingChanges []func()            // apply a step to the state
	calls          map[string]int      // under way by question
	made           map[string]int      // by question, ever
	lost           map[string]int      // calls that were given up, or were in flight at a crash
	waiting        map[uint64]string   // waiter -> question
	answers        map[string]string   // the first that was used
	inFlight       map[string]struct{} // asked and neither landed nor failed
	waiter         uint64
	now            int64
}

// TestAnswerIsPaidOncePlusWhatWasInFlight asks, answers, gives up, commits and
// crashes at random: a question is asked at most once for each call that was lost
// and once more, two waiters never get different answers, each waiter gets one,
// and the state has what the journal counts.
func TestAnswerIsPaidOncePlusWhatWasInFlight(t *testing.T) {
	crashes, hits := 0, uint64(0)
	all := seeds.Run(t, 200, func(t *testing.T, random *rand.Rand) {
		w := &world{t: t, random: random, state: store{}, calls: map[string]int{}, made: map[string]int{}, lost: map[string]int{},
			waiting: map[uint64]string{}, answers: map[string]string{}, inFlight: map[string]struct{}{}}
		w.journal = open(t, w.state, w.spec)
		for range 50 + random.Intn(500) {
			switch random.Intn(20) {
			case 0:
				if random.Intn(4) == 0 {
					w.crash()
					crashes++
				}
			case 1, 2:
				w.fail()
			case 3, 4, 5:
				w.begin()
			case 6, 7, 8:
				w.commit()
			case 9, 10, 11, 12:
				w.answer()
			default:
				w.ask()
			}
			w.now += int64(random.Intn(1000))
		}
		w.finish()
		for _, c := range w.journal.Stats().Models {
			hits += c.Hits
		}
	})
	if all && (crashes < 100 || hits < 1000) {
		t.Errorf("%d crashes and %d hits show little", crashes, hits)
	}
}

func (w *world) ask() {
	question := fmt.Sprint(w.random.Intn(20))
	w.waiter++
	state, answer, err := w.journal.Ask(key(question), "chat", w.waiter)
	if err != nil {
		w.t.Fatal(err)
	}
	_, flying := w.inFlight[question]
	switch {
	case state == Found:
		w.used(question, string(answer))
		return
	case state == Call && flying:
		w.t.Fatalf("%q is called twice at a time", question)
	case state == Call:
		w.calls[question]++
		w.made[question]++
		if w.made[question] > 1+w.lost[question] {
			w.t.Fatalf("%q is asked %d times, %d calls were lost", question, w.made[question], w.lost[question])
		}
	}
	w.inFlight[question] = struct{}{}
	w.waiting[w.waiter] = question
}

func (w *world) used(question, answer string) {
	if first, ok := w.answers[question]; ok && first != answer {
		w.t.Fatalf("%q has the answers %q and %q", question, first, answer)
	}
	w.answers[question] = answer
}

// some returns a question that a call is under way for.
func (w *world) some() (string, bool) {
	var list []string
	for question, n := range w.calls {
		if n > 0 {
			list = append(list, question)
		}
	}
	if len(list) == 0 {
		return "", false
	}
	slices.Sort(list)
	return list[w.random.Intn(len(list))], true
}

// answer ends a call, which may have been given up.
func (w *world) answer() {
	question, ok := w.some()
	if !ok {
		return
	}
	w.calls[question]--
	text := fmt.Sprint(question, " ", w.random.Int63())
	record(w.t, w.journal, question, text, w.now)
}

// fail gives a call up, whose answer may come later.
func (w *world) fail() {
	question, ok := w.some()
	if !ok {
		return
	}
	waiters := w.journal.Fail(key(question))
	if len(waiters) == 0 {
		return
	}
	w.lost[question]++
	delete(w.inFlight, question)
	for _, waiter := range waiters {
		if w.waiting[waiter] != question {
			w.t.Fatalf("waiter %d of %q is returned for %q", waiter, w.waiting[waiter], question)
		}
		delete(w.waiting, waiter)
	}
	if w.random.Intn(2) == 0 {
		w.calls[question]-- // it never comes
	}
}

func (w *world) begin() {
	if len(w.pendingChanges) > 1 {
		return
	}
	changes := w.journal.Changes()
	w.pendingChanges = append(w.pendingChanges, func() { w.state.Apply(changes...) })
}

func (w *world) commit() {
	if len(w.pendingChanges) == 0 {
		return
	}
	w.pendingChanges[0]()
	w.pendingChanges = w.pendingChanges[1:]
	for _, landed := range w.journal.Committed() {
		question, _, _ := strings.Cut(string(landed.Answer), " ")
		if landed.Key != key(question) {
			w.t.Fatalf("an answer of %q landed for another", question)
		}
		w.used(question, string(landed.Answer))
		delete(w.inFlight, question)
		for _, waiter := range landed.Waiters {
			if w.waiting[waiter] != question {
				w.t.Fatalf("waiter %d of %q gets the answer of %q", waiter, w.waiting[waiter], question)
			}
			delete(w.waiting, waiter)
		}
	}
}

// crash loses what is not in the state, sometimes right after a commit.
func (w *world) crash() {
	if len(w.pendingChanges) > 0 && w.random.Intn(2) == 0 {
		w.pendingChanges[0]()
	}
	w.pendingChanges = nil
	for question := range w.inFlight {
		w.lost[question]++
	}
	clear(w.inFlight)
	clear(w.calls)
	clear(w.waiting)
	w.journal = open(w.t, w.state, w.spec)
}

// finish answers everybody and compares the state with the counts.
func (w *world) finish() {
	for question := range w.inFlight {
		if f := w.journal.flights[key(question)]; f == nil {
			w.t.Fatalf("%q is forgotten", question)
		}
		record(w.t, w.journal, question, question+" at last", w.now)
	}
	for w.begin(); len(w.pendingChanges) > 0; {
		w.commit()
	}
	w.begin()
	for len(w.pendingChanges) > 0 {
		w.commit()
	}
	if len(w.waiting) > 0 || len(w.journal.flights) > 0 || len(w.journal.tail) > 0 {
		w.t.Errorf("%d wait, %d requests are in flight, %d of steps are left", len(w.waiting), len(w.journal.flights), len(w.journal.tail))
	}
	stats, err := ReadStats(w.state[string(statekey.JournalHead)])
	if err != nil {
		w.t.Fatal(err)
	}
	answers, bytes := uint64(0), uint64(0)
	for k, v := range w.state {
		if IsAnswer([]byte(k)) {
			answers++
			bytes += uint64(len(v)) - 1 + overhead // units take a byte
		}
	}
	if stats.Answers != answers || stats.Bytes != bytes || len(w.state) > 2*int(answers)+1 {
		w.t.Errorf("%+v, where the state has %d answers of %d bytes in %d entries", stats, answers, bytes, len(w.state))
	}
}

// FuzzState opens journals on any head and any order, which must not panic.
func FuzzState(f *testing.F) {
	f.Add([]byte{headFormat, 0, 1, 130, 1, 0}, make([]byte, 41))
	h := head{first: 3, next: 9, Stats: Stats{Bytes: 700, Models: []Count{{Model: "chat", Calls: 9, Hits: 2, Paid: 90, Saved: 20}}}}
	f.Add(h.append(nil), []byte("x"))
	f.Fuzz(func(t *testing.T, head, order []byte) {
		s := store{string(statekey.JournalHead): head}
		read, err := readHead(head)
		if err != nil {
			return
		}
		if again := string(read.append(nil)); head != nil && head[0] == headFormat && len(head) == len(again) && again != string(head) {
			t.Errorf("%q is written as %q", head, again)
		}
		s[string(orderKey(nil, read.first))] = order
		j, err := Open(beside, s, Spec{BytesMax: 2 * overhead, AnswerBytesMax: overhead})
		if err != nil {
			return
		}
		_, _ = j.Record(key("a"), Answer{}, 0)
		j.Changes()
		j.Committed()
	})
}
