package table

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/stream"
)

// kept is a table as of the event beside in/0, whose changes are committed to a map.
type kept struct {
	t       *testing.T
	spec    Spec
	stored  memory.State
	state   *State
	metrics *observe.Member
	next    stream.Offset
}

func keep(t *testing.T, v Versions) *kept {
	t.Helper()
	k := &kept{t: t, spec: Spec{Topic: "rates", Versions: v}, stored: memory.State{}, metrics: observe.NewMetrics(1).Member(0)}
	k.restart()
	return k
}

// restart throws away what is not committed.
func (k *kept) restart() {
	k.t.Helper()
	state, err := newState([]Spec{k.spec}, stream.Assigned{Partition: stream.Partition{Topic: "in"}, State: k.stored}, "p", slog.New(slog.DiscardHandler), k.metrics)
	if err != nil {
		k.t.Fatal(err)
	}
	state.partitions, k.state = 1, state
}

func (k *kept) commit() {
	k.state.Changes(func(key, data []byte) {
		if data == nil {
			delete(k.stored, string(key))
		} else {
			k.stored[string(key)] = bytes.Clone(data)
		}
	})
}

// row takes in a row that was appended at a second.
func (k *kept) row(key, row string, appended int64) int {
	k.t.Helper()
	bytes, err := k.state.take(place{}, &stream.Record{Key: []byte(key), Value: []byte(row), Offset: k.next, Time: time.Unix(appended, 0)})
	if err != nil {
		k.t.Fatal(err)
	}
	k.next++
	return bytes
}

// find returns the row of a key at a second, "none", or why it is not known.
func (k *kept) find(key string, second, watermark int64) string {
	k.t.Helper()
	row, failure, fatal := k.state.Row(0, []byte(key), second*1e6, watermark)
	switch {
	case fatal != nil:
		k.t.Fatal(fatal)
	case failure != nil:
		return failure.Error()
	case row == nil:
		return "none"
	}
	return string(row)
}

var since = Versions{History: time.Hour, Field: "since", Kind: value.Int, Unit: time.Second}

// TestVersionsAreThoseOfTheirTimes takes in rows in any order, finds them at any time, and
// restarts between. What is found is what a list of all rows says.
func TestVersionsAreThoseOfTheirTimes(t *testing.T) {
	blocks := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		k := keep(t, since)
		rows := map[string]map[int64]string{"a": {}, "b": {}}
		committed, next := clone(rows), k.next
		watermark := int64(never)
		spread := 1 + r.Int64N(5000)
		for i := range 1500 {
			key := string("ab"[r.IntN(2)])
			switch at := r.Int64N(spread); r.IntN(20) {
			case 0:
				k.commit()
				committed, next = clone(rows), k.next
			case 1:
				if r.IntN(4) == 0 {
					k.restart()
					rows, k.next = clone(committed), next
				}
			case 2:
				k.row(key, "", at)
				rows[key][at] = "none"
			case 3, 4, 5, 6, 7, 8:
				floor := int64(never)
				if watermark != never {
					floor = watermark/1e6 - 3600
				}
				if got, want := k.find(key, at, watermark), valid(rows[key], max(at, floor)); got != want {
					t.Fatalf("seed %d, turn %d: %s at %d, watermark %d: found %.80s, want %.80s", seed, i, key, at, watermark, got, want)
				}
				if r.IntN(5) == 0 {
					watermark = max(watermark, at*1e6)
				}
				k.sweep()
			default:
				if r.IntN(2) == 0 {
					at = spread + int64(i) // in order, as rows mostly are
				}
				row := fmt.Sprintf(`{"since":%d,"n":%d,"pad":"%s"}`, at, i, strings.Repeat("x", r.IntN(1+int(seed)*20)))
				k.row(key, row, at)
				rows[key][at] = row
			}
		}
		k.commit()
		for key := range k.stored {
			if strings.Contains(key, "/blocks") {
				blocks++
			}
		}
		k.indexed()
	}
	if blocks < 100 {
		t.Errorf("%d blocks in all", blocks)
	}
}

func clone(rows map[string]map[int64]string) map[string]map[int64]string {
	all := map[string]map[int64]string{}
	for key, of := range rows {
		all[key] = maps.Clone(of)
	}
	return all
}

func valid(rows map[int64]string, at int64) string {
	times := slices.Sorted(maps.Keys(rows))
	i, found := slices.BinarySearch(times, at)
	if !found {
		i--
	}
	if i < 0 {
		return "none"
	}
	return rows[times[i]]
}

// TestVersionsOfAKeyThatChangesAllTheTimeCostLittle takes in a row each second for some
// days, while events follow.
func TestVersionsOfAKeyThatChangesAllTheTimeCostLittle(t *testing.T) {
	k := keep(t, since)
	written, most := 0, 0
	const seconds = 3 * 86400
	for at := range int64(seconds) {
		written += k.row("c", fmt.Sprintf(`{"since":%d,"rate":1.25}`, at), at)
		if at%100 == 99 {
			k.commit()
			if got, want := k.find("c", at-50, (at-10)*1e6), fmt.Sprintf(`{"since":%d,"rate":1.25}`, at-50); got != want {
				t.Fatalf("at %d: %s", at-50, got)
			}
		}
		if at%3600 == 0 {
			size := 0
			for key, data := range k.stored {
				size += len(key) + len(data)
			}
			most = max(most, size)
		}
	}
	t.Logf("%d rows: %d bytes were written for each, at most %d were stored", seconds, written/seconds, most)
	if perRow := written / seconds; perRow > 200 || most > 3600*60*2 {
		t.Errorf("%d bytes were written for each row, %d were stored at most", perRow, most)
	}
}

func TestVersionsThatAreGoneAreNoRowsOfAnotherTime(t *testing.T) {
	k := keep(t, since)
	for _, at := range []int64{1000, 2000, 9000, 10000} {
		k.row("c", fmt.Sprintf(`{"since":%d}`, at), at)
	}
	if got := k.find("c", 999, never); got != "none" {
		t.Errorf("before the first row: %s", got)
	}
	if got := k.find("c", 1500, 9100*1e6); got != `{"since":2000}` {
		t.Errorf("an event that is older than the history finds %s, not the row of its beginning", got)
	}
	if got := k.find("c", 1500, never); got != `{"since":1000}` { // nothing has come that prunes
		t.Errorf("an event that waited finds %s", got)
	}
	k.row("c", `{"since":11000}`, 11000)
	for at, want := range map[int64]string{
		1500: `the version of row "c" of table rates that was valid at 1970-01-01T00:25:00Z is no longer kept`, 2000: `{"since":2000}`, 5500: `{"since":2000}`, 12000: `{"since":11000}`,
	} {
		if got := k.find("c", at, never); !strings.HasPrefix(got, want) {
			t.Errorf("at %d: %s, want %s", at, got, want)
		}
	}
}

func TestRowsWithoutATimeAreRefusedAtTheirEvents(t *testing.T) {
	k := keep(t, since)
	k.row("c", `{"since":10}`, 100)
	k.row("c", `{"since":"later"}`, 200)
	k.row("c", `{"since":300.25}`, 300)
	for at, want := range map[int64]string{9: "none", 10: `{"since":10}`, 199: `{"since":10}`, 200: `row "c" of table rates: its field since does not have the time format`, 300: `row "c"`, 301: `{"since":300.25}`} {
		if got := k.find("c", at, never); !strings.HasPrefix(got, want) {
			t.Errorf("at %d: %s, want %s", at, got, want)
		}
	}
}

func TestTimesOfRowsAreReadAsTheFileSays(t *testing.T) {
	for want, c := range map[string]struct {
		v   Versions
		row string
	}{
		"2026-01-01T09:00:00Z":        {Versions{}, `{}`},
		"2026-01-01T10:00:00Z":        {Versions{Field: "at", Kind: value.Time}, `{"n":1,"at":"2026-01-01T11:00:00+01:00"}`},
		"2027-01-01T10:00:00Z":        {Versions{Field: "at", Kind: value.String, Layout: "2006-01-02 15:04"}, `{"at":"2027-01-01 10:00"}`},
		"2026-01-01T10:00:00.123457Z": {Versions{Field: "at", Kind: value.Int, Unit: time.Nanosecond}, `{"at":1767261600123457999}`},
		"2026-01-01T10:00:00.5Z":      {Versions{Field: "at", Kind: value.Int, Unit: time.Second}, `{"at":1767261600.5}`},
	} {
		at, ok := newTimes(c.v).of([]byte(c.row), time.Unix(1767258000, 0))
		if got := time.UnixMicro(at).UTC().Format(time.RFC3339Nano); got != want || !ok {
			t.Errorf("%s: %s, want %s", c.row, got, want)
		}
	}
}

func TestRowsThatAreLaterThanEventsWaitAreCounted(t *testing.T) {
	v := since
	v.Wait = 2 * time.Second
	k := keep(t, v)
	k.row("c", `{"since":98}`, 100)
	k.row("c", `{"since":200}`, 100)
	k.row("c", ``, 100)
	if n := k.metrics.TableLateRows.Load(); n != 0 {
		t.Errorf("%d rows are late", n)
	}
	k.row("c", `{"since":97}`, 100)
	if n := k.metrics.TableLateRows.Load(); n != 1 {
		t.Errorf("%d rows are late, want 1", n)
	}
}

// TestVersionsHaveABound fills the blocks of a key with large rows.
func TestVersionsHaveABound(t *testing.T) {
	k := keep(t, since)
	pad := strings.Repeat("x", blockBytes)
	for at := range int64(blocksMax + 3) {
		k.row("c", fmt.Sprintf(`{"since":%d,"pad":"%s"}`, at, pad), at)
		k.commit()
	}
	if n := k.metrics.TableVersionsLost.Load(); n != 2 {
		t.Errorf("%d blocks were removed, want 2", n)
	}
	if got := k.find("c", 1, never); !strings.Contains(got, "is no longer kept") {
		t.Errorf("%.80s", got)
	}
	if got := k.find("c", 2, never); !strings.HasPrefix(got, `{"since":2,`) {
		t.Errorf("%.80s", got)
	}
}

func TestDamagedVersionsAreAnError(t *testing.T) {
	k := keep(t, since)
	for at := range int64(200) {
		k.row("c", fmt.Sprintf(`{"since":%d,"pad":"0123456789012345678901234567890"}`, at), at)
	}
	k.commit()
	find := func(at int64) (fatal error) {
		k.restart()
		_, _, fatal = k.state.Row(0, []byte("c"), at*1e6, never)
		return fatal
	}
	for key, whole := range maps.Clone(k.stored) {
		at, cuts := int64(500), []int{1, 8, 15, len(whole) - 1}
		if strings.HasSuffix(key, "c\x00\x00\x00\x00") { // the first block
			at, cuts = 20, []int{1, 8, 20, 100}
		} else if !strings.HasSuffix(key, "c") || strings.Contains(key, inDue) {
			continue
		}
		for _, n := range cuts {
			if k.stored[key] = whole[:n]; find(at) == nil {
				t.Errorf("%d bytes of %d of %q are read", n, len(whole), key)
			}
		}
		k.stored[key] = whole
		if err := find(at); err != nil {
			t.Error(err)
		}
		if at == 20 {
			if delete(k.stored, key); find(at) == nil {
				t.Error("a block that is gone is not missed")
			}
			k.stored[key] = whole
		}
	}
}

func BenchmarkVersion(b *testing.B) {
	s, err := newState([]Spec{{Topic: "rates", Versions: since}}, stream.Assigned{Partition: stream.Partition{Topic: "in"}, State: memory.State{}}, "p", slog.New(slog.DiscardHandler), observe.NewMetrics(1).Member(0))
	if err != nil {
		b.Fatal(err)
	}
	for i := range 60 {
		if _, err := s.take(place{}, &stream.Record{Key: []byte("c"), Value: fmt.Appendf(nil, `{"since":%d,"rate":1.25}`, i*60), Time: time.Unix(int64(i)*60, 0)}); err != nil {
			b.Fatal(err)
		}
	}
	key := []byte("c")
	b.ReportAllocs()
	for b.Loop() {
		if row, _, _ := s.Row(0, key, 3599e6, 3000e6); row == nil {
			b.Fatal("no row")
		}
	}
}
