package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// store is committed state.
type store = memory.State

var beside = stream.Partition{Topic: "in", Index: 3}

func open(t testing.TB, s store, spec Spec) *Journal {
	t.Helper()
	j, err := Open(beside, s, spec)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// commit makes a step of what j changes durable.
func commit(s store, j *Journal) []Landed {
	s.Apply(j.Changes()...)
	return j.Committed()
}

func key(question string) Key {
	r := Request{Endpoint: "https://models/chat", Body: []byte(question)}
	return r.Key()
}

// ask returns what is to be done as text.
func ask(t testing.TB, j *Journal, question string, waiter uint64) string {
	t.Helper()
	state, answer, err := j.Ask(key(question), "chat", waiter)
	if err != nil {
		t.Fatal(err)
	}
	if state == Found {
		return "found " + string(answer)
	}
	return state.String()
}

func record(t testing.TB, j *Journal, question, answer string, now int64) bool {
	t.Helper()
	recorded, err := j.Record(key(question), Answer{Model: "chat", Bytes: []byte(answer), Units: 10}, now)
	if err != nil {
		t.Fatal(err)
	}
	return recorded
}

func wantAsk(t testing.TB, j *Journal, question string, waiter uint64, want string) {
	t.Helper()
	if got := ask(t, j, question, waiter); got != want {
		t.Errorf("%q is %q, want %q", question, got, want)
	}
}

func TestAnswerIsUsedOnceItsStepIsCommitted(t *testing.T) {
	s := store{}
	j := open(t, s, Spec{})
	wantAsk(t, j, "a", 1, "call")
	wantAsk(t, j, "a", 2, "wait")
	if !record(t, j, "a", "yes", 0) {
		t.Error("the answer is not recorded")
	}
	wantAsk(t, j, "a", 3, "wait")
	if waiters := j.Fail(key("a")); waiters != nil {
		t.Errorf("an answer that came is given up by %v", waiters)
	}
	changes := j.Changes()
	wantAsk(t, j, "a", 4, "wait")
	if answer, err := j.Lookup(key("a")); answer != nil || err != nil {
		t.Errorf("before the commit there is %q, %v", answer, err)
	}
	s.Apply(changes...)
	want := []Landed{{Key: key("a"), Answer: []byte("yes"), Waiters: []uint64{1, 2, 3, 4}}}
	if diff := cmp.Diff(want, j.Committed()); diff != "" {
		t.Error(diff)
	}
	wantAsk(t, j, "a", 5, "found yes")
	if answer, err := j.Lookup(key("a")); string(answer) != "yes" || err != nil {
		t.Errorf("after the commit there is %q, %v", answer, err)
	}
	commit(s, j)
	wantCount := []Count{{Model: "chat", Calls: 1, Hits: 4, Paid: 10, Saved: 40}}
	stats, err := ReadStats(s[string(statekey.JournalHead)])
	if diff := cmp.Diff(wantCount, stats.Models); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestCrashAsksAgainOnlyForWhatWasInFlight(t *testing.T) {
	s := store{}
	j := open(t, s, Spec{})
	for i, question := range []string{"durable", "answered", "called"} {
		wantAsk(t, j, question, uint64(i), "call")
	}
	record(t, j, "durable", "1", 0)
	commit(s, j)
	record(t, j, "answered", "2", 0)
	_ = j.Changes() // of a commit that the crash came before

	j = open(t, s, Spec{})
	wantAsk(t, j, "durable", 0, "found 1")
	wantAsk(t, j, "answered", 1, "call")
	wantAsk(t, j, "called", 2, "call")
}

func TestLateAnswerIsTakenByTheRetryThatWaits(t *testing.T) {
	s := store{}
	j := open(t, s, Spec{})
	wantAsk(t, j, "a", 1, "call")
	wantAsk(t, j, "a", 2, "wait")
	if got := j.Fail(key("a")); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("%v waited", got)
	}
	if got := j.Fail(key("a")); got != nil {
		t.Errorf("%v waited twice", got)
	}
	wantAsk(t, j, "a", 1, "call") // the retry
	if !record(t, j, "a", "late", 0) {
		t.Error("the late answer is not recorded")
	}
	if record(t, j, "a", "of the retry", 0) {
		t.Error("a second answer is recorded before the first one is durable")
	}
	if landed := commit(s, j); len(landed) != 1 || string(landed[0].Answer) != "late" || !slices.Equal(landed[0].Waiters, []uint64{1}) {
		t.Errorf("%+v", landed)
	}
	if record(t, j, "a", "of the retry", 0) {
		t.Error("a second answer is recorded")
	}
	if c := j.Stats().Models[0]; c.Again != 2 || c.Calls != 3 {
		t.Errorf("%d of %d calls were for what had an answer", c.Again, c.Calls)
	}
	wantAsk(t, j, "a", 3, "found late")

	wantAsk(t, j, "b", 4, "call")
	j.Fail(key("b"))
	record(t, j, "b", "late", 0) // while nobody waits
	wantAsk(t, j, "b", 4, "wait")
	if landed := commit(s, j); len(landed) != 1 || !slices.Equal(landed[0].Waiters, []uint64{4}) {
		t.Errorf("%+v", landed)
	}
	if got := j.Stats().Models[0]; got.Calls != 4 || got.Hits != 2 {
		t.Errorf("%+v", got)
	}
}

func TestStepsAreCommittedWhileOthersAreMade(t *testing.T) {
	s := store{}
	j := open(t, s, Spec{})
	wantAsk(t, j, "a", 1, "call")
	wantAsk(t, j, "b", 2, "call")
	record(t, j, "a", "1", 0)
	first := j.Changes()
	record(t, j, "b", "2", 0)
	s.Apply(first...)
	if landed := j.Committed(); len(landed) != 1 || landed[0].Key != key("a") {
		t.Errorf("%+v", landed)
	}
	wantAsk(t, j, "b", 3, "wait")
	if landed := commit(s, j); len(landed) != 1 || landed[0].Key != key("b") {
		t.Errorf("%+v", landed)
	}
	if changes := j.Changes(); len(changes) != 1 { // the hit of 3
		t.Errorf("%v", changes)
	}
	j.Committed()
	if changes := j.Changes(); changes != nil {
		t.Errorf("a step of nothing has %v", changes)
	}
	j.Committed()
	defer func() {
		if recover() == nil {
			t.Error("a step that never was is committed")
		}
	}()
	j.Committed()
}

func TestOldestAnswersLeaveForAgeAndForRoom(t *testing.T) {
	s := store{}
	hour := time.Hour.Microseconds()
	spec := Spec{Retention: 24 * time.Hour, BytesMax: 5*overhead + 50, AnswerBytesMax: overhead}
	j := open(t, s, spec)
	for i := range 7 { // each of 10 bytes, so there is room for 5 with 50
		record(t, j, fmt.Sprint(i), "0123456789", int64(i)*hour)
		if i%2 == 0 {
			commit(s, j)
		}
	}
	commit(s, j)
	for i, want := range []string{"call", "call", "found 0123456789", "found 0123456789", "found 0123456789", "found 0123456789", "found 0123456789"} {
		wantAsk(t, j, fmt.Sprint(i), uint64(i), want)
	}
	record(t, j, "young", "", 28*hour) // those of hours 2 to 4 are older than a day
	commit(s, j)
	for i, want := range []string{"call", "call", "call", "found 0123456789", "found 0123456789"} {
		wantAsk(t, j, fmt.Sprint(i+2), 9, want)
	}
	wantAsk(t, j, "young", 9, "found ")
	if stats := j.Stats(); stats.Answers != 3 || stats.Bytes != 3*overhead+20 {
		t.Errorf("%+v", stats)
	}
	commit(s, j)
	if len(s) != 2*3+1 {
		t.Errorf("the state has %d entries for 3 answers", len(s))
	}
	record(t, j, "large", strings.Repeat("x", overhead), 28*hour)
	commit(s, j)
	if stats := j.Stats(); stats.Bytes > uint64(spec.BytesMax) {
		t.Errorf("%+v", stats)
	}
	_, err := j.Record(key("larger"), Answer{Model: "chat", Bytes: make([]byte, overhead+1)}, 0)
	if !errors.Is(err, stream.ErrTooLarge) {
		t.Errorf("an answer over the bound: %v", err)
	}
}

// TestAnswerThatLeftBeforeItsStepIsCommittedReachesItsWaiters fills the journal
// within one step.
func TestAnswerThatLeftBeforeItsStepIsCommittedReachesItsWaiters(t *testing.T) {
	s := store{}
	j := open(t, s, Spec{BytesMax: 2 * overhead, AnswerBytesMax: 1})
	for i := range uint64(4) {
		wantAsk(t, j, fmt.Sprint(i), i, "call")
		record(t, j, fmt.Sprint(i), "", 0)
	}
	if record(t, j, "0", "", 0) {
		t.Error("another answer to what landed is recorded")
	}
	landed := commit(s, j)
	if len(landed) != 4 {
		t.Errorf("%d answers landed", len(landed))
	}
	for i, l := range landed {
		if !slices.Equal(l.Waiters, []uint64{uint64(i)}) {
			t.Errorf("%+v", l)
		}
	}
	if len(s) != 2*2+1 {
		t.Errorf("the state has %d entries", len(s))
	}
	wantAsk(t, j, "0", 0, "call")
	record(t, j, "0", "", 0)
	commit(s, j)
	wantAsk(t, j, "0", 0, "found ")
	wantAsk(t, j, "2", 0, "call")
	wantAsk(t, j, "3", 0, "found ")
}

func TestNarrowerBoundsTakeHoldStepByStep(t *testing.T) {
	s := store{}
	j := open(t, s, Spec{})
	for i := range 1000 {
		record(t, j, fmt.Sprint(i), "x", 0)
	}
	commit(s, j)
	j = open(t, s, Spec{BytesMax: 3 * overhead, AnswerBytesMax: overhead})
	for i := range 1000 {
		before := j.Stats().Answers
		record(t, j, fmt.Sprint("new", i), "x", 0)
		if now := j.Stats().Answers; now+3 < before {
			t.Fatalf("%d answers became %d at once", before, now)
		}
		commit(s, j)
	}
	if stats := j.Stats(); stats.Bytes > 3*overhead || len(s) != int(2*stats.Answers)+1 {
		t.Errorf("%+v, %d entries", stats, len(s))
	}
}

// TestAgedAnswersLeaveAFewAtATime has a hundred answers grow too old at once.
func TestAgedAnswersLeaveAFewAtATime(t *testing.T) {
	s := store{}
	j := open(t, s, Spec{Retention: time.Hour})
	for i := range 100 {
		record(t, j, fmt.Sprint(i), "x", 0)
	}
	commit(s, j)
	for i, want := range []uint64{100 + 1 - agedMost, 100 + 2 - 2*agedMost} {
		record(t, j, fmt.Sprint("young", i), "x", 2*time.Hour.Microseconds())
		if n := j.Stats().Answers; n != want {
			t.Errorf("%d answers are left, want %d", n, want)
		}
	}
}

// TestAgeCountsFromTheNewestEvent records answers for old events, which are as
// young as the one before them: they do not leave with it.
func TestAgeCountsFromTheNewestEvent(t *testing.T) {
	const hour = int64(time.Hour / time.Microsecond)
	s, spec := store{}, Spec{Retention: 24 * time.Hour, BytesMax: 3 * overhead, AnswerBytesMax: 1}
	for round := range int64(2) { // the second time by a journal that was opened anew
		j := open(t, s, spec)
		at := (200*round + 100) * hour
		record(t, j, fmt.Sprint("new", round), "", at)
		commit(s, j)
		if round > 0 {
			j = open(t, s, spec)
		}
		record(t, j, fmt.Sprint("of an old event", round), "", hour)
		record(t, j, fmt.Sprint("newer", round), "", at+hour)
		record(t, j, fmt.Sprint("no room for the first", round), "", at+2*hour)
		commit(s, j)
		wantAsk(t, j, fmt.Sprint("new", round), 1, "call")
		wantAsk(t, j, fmt.Sprint("of an old event", round), 2, "found ")
	}
}

func TestPriceIsThatOfTheNewestAnswer(t *testing.T) {
	s := store{}
	for i, price := range []float64{0, 0.5, 0.25} {
		j := open(t, s, Spec{})
		if _, err := j.Record(key(fmt.Sprint(i)), Answer{Model: "chat", Units: 2, Price: price}, 0); err != nil {
			t.Fatal(err)
		}
		commit(s, j)
		stats, err := ReadStats(s[string(statekey.JournalHead)])
		if err != nil || len(stats.Models) != 1 || stats.Models[0].Price != price {
			t.Errorf("%+v, %v, want a price of %v", stats, err, price)
		}
	}
	var sum Stats
	for _, price := range []float64{0, 0.5, 0} { // beside another partition nobody answered since
		sum.Add(Stats{Models: []Count{{Model: "chat", Price: price}}})
	}
	if sum.Models[0].Price != 0.5 {
		t.Errorf("%+v", sum)
	}
}

func TestWidestBoundsKeepWhatEitherKeeps(t *testing.T) {
	day := 24 * time.Hour
	for _, c := range []struct{ a, b, want Spec }{
		{Spec{}, Spec{Retention: day}, Spec{7 * day, 256 << 20, 1 << 20}},
		{Spec{Retention: 30 * day, BytesMax: 2 << 20}, Spec{Retention: day, BytesMax: 3 << 20}, Spec{30 * day, 3 << 20, 1 << 20}},
	} {
		if got, other := c.a.Widest(c.b), c.b.Widest(c.a); got != c.want || other != c.want {
			t.Errorf("%+v and %+v: %+v, %+v", c.a, c.b, got, other)
		}
	}
}

func TestKeyIsOfTheWholeRequest(t *testing.T) {
	requests := []Request{
		{}, {Endpoint: "ab"}, {Endpoint: "a", Version: "b"}, {Version: "ab"}, {Version: "a", Parameters: "b"}, {Parameters: "ab"},
		{Parameters: "a", Event: "b"}, {Event: "ab"}, {Event: "a", Body: []byte("b")}, {Body: []byte("ab")}, {Body: []byte("\x02ab")},
	}
	seen := map[Key]int{}
	for i := range requests {
		k := requests[i].Key()
		if other, taken := seen[k]; taken {
			t.Errorf("%+v and %+v are the same", requests[i], requests[other])
		}
		if seen[k] = i; k != requests[i].Key() {
			t.Error("a request has two keys")
		}
	}
	r := Request{Endpoint: "e", Version: "1", Parameters: "p", Body: []byte("b"), Event: "in:0:7"}
	if got := fmt.Sprintf("%x", r.Key()); got != keyOfAll { // stored journals have it
		t.Errorf("the key of a request became %s", got)
	}
}

const keyOfAll = "8bd5673ed96cd3b0b66c327353285da873f2c7f879b6f9091134ae88c31b4ede"

func TestRowsAreWrittenAlikeWhereTheyAreEqual(t *testing.T) {
	nan := math.Float64frombits(0x7ff8000000000002)
	rows := []struct {
		values []float64
		bytes  [][]byte
	}{
		{}, {values: []float64{0}}, {values: []float64{math.Copysign(0, -1)}}, {values: []float64{0, 0}}, {values: []float64{nan}},
		{values: []float64{0.1}}, {values: []float64{float64(float32(0.1))}}, {values: []float64{1<<24 + 1}}, {values: []float64{1 << 24}},
		{values: []float64{nan, 0.5, 0.1}}, {values: []float64{0.1, 0.5, 0.1}},
		{bytes: [][]byte{nil}}, {bytes: [][]byte{{}}}, {bytes: [][]byte{{}, {}}}, {bytes: [][]byte{[]byte("a"), nil}}, {bytes: [][]byte{nil, []byte("a")}},
		{bytes: [][]byte{[]byte("a"), []byte("b")}}, {bytes: [][]byte{[]byte("ab")}},
	}
	seen := map[string]int{}
	for i, row := range rows {
		written := string(AppendRow(nil, row.values, row.bytes))
		if other, taken := seen[written]; taken {
			t.Errorf("%v and %v are written alike", row, rows[other])
		}
		seen[written] = i
	}
	if string(AppendRow(nil, []float64{nan}, nil)) != string(AppendRow(nil, []float64{math.NaN()}, nil)) {
		t.Error("what is missing is written in two ways")
	}
	stored := []byte{3, 0, 0, 0x20, 0x41, 0, 0, 0xc0, 0x7f, 0, 0, 0x80, 0xbe, 0} // as stored
	if got := AppendRow(nil, []float64{10, math.NaN(), -0.25}, [][]byte{nil}); !slices.Equal(got, stored) {
		t.Errorf("a row of float32 became %x", got)
	}
}

func TestScoresAreReadAsTheyWere(t *testing.T) {
	scores := []float32{0.25, float32(math.Inf(1)), -7}
	answer, got := AppendAnswer(nil, scores, nil), make([]float32, 3)
	if err := ReadAnswer(got, nil, answer); err != nil || !slices.Equal(got, scores) {
		t.Errorf("%v, %v", got, err)
	}
	if err := ReadAnswer(got[:2], nil, answer); err == nil {
		t.Error("scores of another width are read")
	}
}

func TestTextsAreReadAsTheyWere(t *testing.T) {
	texts := [][]byte{nil, {}, []byte("a"), bytes.Repeat([]byte("long "), 100)}
	answer := AppendAnswer(nil, []float32{1}, texts)
	got, score := make([][]byte, len(texts)), make([]float32, 1)
	if err := ReadAnswer(score, got, answer); err != nil || !slices.EqualFunc(got, texts, func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }) {
		t.Errorf("%q, %v", got, err)
	}
	for cut := range len(answer) {
		if err := ReadAnswer(score, got, answer[:cut]); err == nil {
			t.Errorf("an answer that is cut at %d is read", cut)
		}
	}
	if err := ReadAnswer(score, got, append(answer, 0)); err == nil {
		t.Error("an answer with another text is read")
	}
}

func TestSpecSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{Retention: -1}, "retention is -1ns"},
		{Spec{BytesMax: 1000}, "1000 bytes of answers: use at least 1048704"},
		{Spec{BytesMax: -1}, "-1 bytes of answers"},
		{Spec{AnswerBytesMax: -1}, "-1 bytes of one answer"},
	} {
		if _, err := Open(beside, store{}, c.spec); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.spec, err)
		}
	}
}

func TestHeadWithoutWhatWasPaidAgainIsRead(t *testing.T) {
	want := head{first: 3, next: 9, Stats: Stats{Answers: 6, Bytes: 700, Models: []Count{{Model: "chat", Calls: 9, Hits: 2, Paid: 90, Saved: 20, Price: 0.5}}}}
	stored := append([]byte{2, 3, 9, 0xbc, 5, 1, 4, 'c', 'h', 'a', 't', 9, 2, 90, 20}, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f)
	if got, err := readHead(stored); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	want.Models[0].Again = 4
	if got, err := readHead(want.append(nil)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestDamagedStateIsAnError(t *testing.T) {
	s := store{}
	j := open(t, s, Spec{Retention: time.Microsecond})
	record(t, j, "a", "1", 0)
	commit(s, j)
	head := s[string(statekey.JournalHead)]
	for _, damaged := range [][]byte{{}, {1}, head[:len(head)-1], append(slices.Clone(head), 0), {2, 5, 4, 0, 0}, {2, 0, 0, 0, 200}} {
		if _, err := Open(beside, store{string(statekey.JournalHead): damaged}, Spec{}); !errors.Is(err, packed.ErrDamaged) {
			t.Errorf("%v: %v", damaged, err)
		}
	}
	answer, order := string(answerKey(nil, key("a"))), string(orderKey(nil, 0))
	for at, value := range map[string][]byte{answer: {}, order: {1, 2, 3}} {
		kept := s[at]
		s[at] = value
		j, err := Open(beside, s, Spec{})
		if err == nil {
			_, _, err = j.Ask(key("a"), "chat", 0)
		}
		if !errors.Is(err, packed.ErrDamaged) {
			t.Errorf("%q: %v", at, err)
		}
		s[at] = kept
	}
}
