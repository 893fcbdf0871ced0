package reference

import (
	"errors"
	"math"
)

// aggregates are over some payments; mean, max and min of none are 0.
type aggregates struct {
	count               int64
	sum, mean, max, min float64
}

// row is the features of one event.
type row struct {
	spend [3]aggregates
	flow  [2]aggregates
	gap   float64
	past  float64
	hot   int64
}

// row returns the inputs of the model in the order of the pipeline file.
func (f *row) row(amount float64, where int64) []float32 {
	var in []float64
	for _, a := range f.spend {
		in = append(in, float64(a.count), a.sum, a.mean, a.max)
	}
	for _, a := range f.flow {
		in = append(in, float64(a.count), a.sum, a.mean, a.max, a.min)
	}
	in = append(in, amount, f.gap, f.past, float64(f.hot), float64(where))
	out := make([]float32, len(in))
	for i, v := range in {
		out[i] = float32(v)
	}
	return out
}

// features takes an event in and computes its features. Where the amount does
// not fit, nothing of the key changes.
func (k *Key) features(at int64, amount float64) (*row, error) {
	cents := math.RoundToEven(amount * 100)
	if !(math.Abs(cents) <= 1<<53) {
		return nil, errors.New("amount is beyond 2^53 cents")
	}
	f := &row{gap: -1}
	for i, w := range [3]struct{ pane, panes int64 }{{5 * second, 12}, {30 * second, 10}, {60 * second, 60}} {
		f.spend[i] = addPane(&k.Spend[i], floorDiv(at, w.pane), w.panes, int64(cents))
	}
	k.addFlow(Entry{at, int64(cents)})
	for i, size := range [2]int64{60 * second, 3600 * second} {
		f.flow[i] = overFlow(k.Flow, at-size, at)
	}
	if k.Last != never {
		f.gap = float64(max(0, at-k.Last)) / second
	}
	k.Last = max(k.Last, at)

	// Feedback: what past scores left, before this event has one.
	for _, score := range k.Past {
		f.past += score
	}
	if len(k.Past) > 0 {
		f.past /= float64(len(k.Past))
	}
	for _, t := range k.Hot {
		if t > at-600*second && t <= at {
			f.hot++
		}
	}
	return f, nil
}

// addScore takes the event's score in.
func (k *Key) addScore(at int64, score float64) {
	k.Past = append(k.Past, score)
	if len(k.Past) > 10 {
		k.Past = k.Past[1:]
	}
	if score <= 0.5 {
		return
	}
	newest := at
	for _, t := range k.Hot {
		newest = max(newest, t)
	}
	var kept []int64
	for _, t := range append(k.Hot, at) {
		if t > newest-600*second {
			kept = append(kept, t)
		}
	}
	k.Hot = kept
}

// addFlow appends an entry and drops what is out of the longest window before
// the newest entry, the appended one included.
func (k *Key) addFlow(e Entry) {
	newest := e.Time
	for _, o := range k.Flow {
		newest = max(newest, o.Time)
	}
	var kept []Entry
	for _, o := range append(k.Flow, e) {
		if o.Time > newest-3600*second {
			kept = append(kept, o)
		}
	}
	k.Flow = kept
}

// overFlow aggregates the entries in (after, at].
func overFlow(entries []Entry, after, at int64) aggregates {
	var t total
	for _, e := range entries {
		if e.Time > after && e.Time <= at {
			t.add(1, e.Cents, e.Cents, e.Cents)
		}
	}
	return t.aggregates()
}

// addPane adds to pane index of a window of n panes, drops the panes that are n
// or more behind the newest, the one added to included, and aggregates those
// up to index.
func addPane(panes *[]Pane, index, n, cents int64) aggregates {
	newest, found := index, false
	for i := range *panes {
		p := &(*panes)[i]
		newest = max(newest, p.Index)
		if p.Index == index {
			found = true
			p.Count++
			p.Sum += cents
			p.Max = max(p.Max, cents)
		}
	}
	if !found {
		*panes = append(*panes, Pane{index, 1, cents, cents})
	}
	var kept []Pane
	var t total
	for _, p := range *panes {
		if p.Index <= newest-n {
			continue
		}
		kept = append(kept, p)
		if p.Index <= index {
			t.add(p.Count, p.Sum, p.Max, 0)
		}
	}
	*panes = kept
	return t.aggregates()
}

func floorDiv(a, b int64) int64 {
	if a%b < 0 {
		return a/b - 1
	}
	return a / b
}

// total is in cents.
type total struct{ count, sum, max, min int64 }

func (t *total) add(count, sum, high, low int64) {
	if t.count == 0 {
		t.max, t.min = high, low
	}
	t.count += count
	t.sum += sum
	t.max = max(t.max, high)
	t.min = min(t.min, low)
}

func (t *total) aggregates() aggregates {
	if t.count == 0 {
		return aggregates{}
	}
	sum := float64(t.sum) / 100
	return aggregates{t.count, sum, sum / float64(t.count), float64(t.max) / 100, float64(t.min) / 100}
}
