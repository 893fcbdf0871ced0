package task

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/due"
	"github.com/afterbay/afterbay/header"
	"github.com/afterbay/afterbay/statekey"
	"github.com/afterbay/afterbay/step"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/value"
)

// callState is what a function keeps of a key, in memory ahead of the committed
// state.
type callState struct {
	keyed *step.Keyed
	dirty bool
}

// called is what a function wrote for an event.
type called struct {
	call    *step.Call
	outputs []step.Output
}

// firing is a timer that was due, and what its call wrote.
type firing struct {
	item    int32 // at whose position, before it
	at      int64
	key     string
	call    *step.Call
	timer   string
	outputs []step.Output
	err     error
}

// firingsMax is about how many timers fire in one chunk. Where more are due at
// one position, they take several steps, before that position's event.
const firingsMax = 4096

func (w *worker) mark(p *partition, it *item) {
	if p.markChunk != w.chunk {
		p.markChunk, p.marks = w.chunk, p.marks[:0]
	}
	p.marks.Add(it.index, int64(it.record.Offset), it.watermark)
}

// call calls a function for an event. The first error is the event's.
func (w *worker) call(c *step.Call, it *item) (failure, fatal error) {
	if wanted, err := step.Holds(c.When, it.row); err != nil || !wanted {
		for _, slot := range c.Outputs {
			it.row.Clear(slot)
		}
		return err, nil
	}
	ctx := step.Invocation{
		ID: it.row.Text(w.plan.Meta.ID), Key: value.Text(it.record.Key), Time: time.UnixMicro(it.time).UTC(), Watermark: timeOrZero(it.watermark),
		Offset: int64(it.record.Offset), Row: it.row, Inputs: c.Inputs, Outputs: c.Outputs, Topics: c.Topics,
	}
	var state *callState
	if c.Function.Keyed {
		if state, fatal = it.partition.callState(w.plan, it.key, c); fatal != nil {
			return nil, fatal
		}
		w.fire(it.partition, it.key, c, state, it.index, it.watermark)
		ctx.State, ctx.Key = state.keyed, it.key.key
	}
	for _, slot := range c.Outputs {
		it.row.Clear(slot)
	}
	effects, err := c.Function.Run(step.NewContext(ctx))
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err), nil
	}
	for _, slot := range c.Outputs {
		if !slot.Type.Optional && !it.row.Has(slot) {
			return fmt.Errorf("%s: output %q was not set", c.Name, slot.Name), nil
		}
	}
	if len(effects.Outputs) > 0 {
		it.called = append(it.called, called{c, effects.Outputs})
	}
	if effects.State != nil {
		w.keep(it.partition, it.key, state, effects.State)
	}
	return nil, nil
}

// keep makes s what the function keeps of the key.
func (w *worker) keep(p *partition, k *keyState, state *callState, s *step.Keyed) {
	state.keyed, state.dirty = s, true
	if len(s.Timers) > 0 {
		p.await(k, s.Timers[0].At)
	}
	w.touch(p, k)
}

// await notes that a timer of the key may be due at a watermark. A key is noted
// once, for its first timer.
func (p *partition) await(k *keyState, at int64) {
	if !k.awaited || at < k.timer {
		k.awaited, k.timer = true, at
		p.timers.Push(due.Entry{At: at, Key: k.key})
	}
}

// callState returns what a function keeps of a key.
func (p *partition) callState(plan *Plan, k *keyState, c *step.Call) (*callState, error) {
	if k.calls == nil {
		k.calls = make([]*callState, len(plan.Calls))
	}
	if k.calls[c.Index] == nil {
		data, err := p.view.Get(statekey.AppendCall(nil, k.key, c.Name))
		if err != nil {
			return nil, err
		}
		keyed, err := step.Parse(data)
		if err != nil {
			return nil, fmt.Errorf("key %q of function %s in %v: %w", k.key, c.Name, p.id, err)
		}
		k.calls[c.Index] = &callState{keyed: keyed}
		p.decoded.Resize(k, k.bytes())
	}
	return k.calls[c.Index], nil
}

// sealCall turns what a function keeps of a key into a change of state.
func (w *worker) sealCall(p *partition, k *keyState, c *step.Call, state *callState) {
	s := w.step
	at := len(s.bytes)
	s.bytes = statekey.AppendCall(s.bytes, k.key, c.Name)
	key := s.bytes[at:len(s.bytes):len(s.bytes)]
	if state.keyed.Empty() {
		w.change(p, key, nil)
		return
	}
	at = len(s.bytes)
	s.bytes = state.keyed.Append(s.bytes)
	w.change(p, key, s.bytes[at:len(s.bytes):len(s.bytes)])
}

// loadTimers finds when timers of stored keys may be due.
func (p *partition) loadTimers(plan *Plan) error {
	if !plan.keyed {
		return nil
	}
	for entry, err := range p.view.Scan([]byte{statekey.Call}) {
		if err != nil {
			return err
		}
		keyed, err := step.Parse(entry.Value)
		key, ok := statekey.CallKey(entry.Key)
		if err != nil || !ok {
			return fmt.Errorf("function state of %v: %w", p.id, errStateCorrupt)
		}
		if len(keyed.Timers) > 0 {
			p.timers.Push(due.Entry{At: keyed.Timers[0].At, Key: value.Text(key)})
		}
	}
	return nil
}

// fire calls the timers of a key and function whose time is until or before, at
// positions up to that of the item last. The position of a timer does not depend
// on when it is called: before the next event of its key, or else at the end of
// the chunk.
func (w *worker) fire(p *partition, k *keyState, c *step.Call, state *callState, last int32, until int64) {
	for p.markChunk == w.chunk {
		first, at := -1, last
		for i := range state.keyed.Timers {
			t := &state.keyed.Timers[i]
			if t.At > until {
				break
			}
			if item, ok := p.marks.First(t.At, t.After); ok && (item < at || item == at && first < 0) {
				first, at = i, item
			}
		}
		if first < 0 {
			return
		}
		w.fireOne(p, k, c, state, first, at)
	}
}

func (w *worker) fireOne(p *partition, k *keyState, c *step.Call, state *callState, timer int, i int32) {
	t, before := state.keyed.Timers[timer], state.keyed.Without(timer)
	w.metrics.Timers.Add(1)
	w.fired++
	w.keep(p, k, state, before)
	if c.Function.Timer == nil {
		return
	}
	effects, err := c.Function.Run(step.NewContext(step.Invocation{
		ID: w.timerID(p, k.key, c, t.Name, t.At), Key: k.key, Time: time.UnixMicro(t.At).UTC(), Offset: int64(w.items[i].record.Offset),
		Watermark: timeOrZero(w.items[i].watermark), Timer: t.Name, Topics: c.Topics, State: before,
	}))
	if effects.State != nil {
		w.keep(p, k, state, effects.State)
	}
	if err != nil || len(effects.Outputs) > 0 {
		w.firings = append(w.firings, firing{i, t.At, k.key, c, t.Name, effects.Outputs, err})
	}
}

func (w *worker) timerID(p *partition, key string, c *step.Call, timer string, at int64) string {
	return strings.Join([]string{w.plan.Name, strconv.Itoa(int(p.index)), key, c.Name, timer, strconv.FormatInt(at, 10)}, ":")
}

// fireRest fires what is due in the chunk of keys without a later event in it,
// at most limit.
func (w *worker) fireRest(limit int) error {
	if !w.plan.keyed {
		return nil
	}
	last := int32(len(w.items) - 1)
	for _, p := range w.step.touched {
		if p.markChunk != w.chunk {
			continue
		}
		var later []due.Entry // what is left is not due before the next chunk
		watermark := p.marks.Watermark()
		for w.fired = 0; w.fired < limit && p.timers.Until(watermark); {
			entry := p.timers.Pop()
			k, err := p.lookup(w.plan, []byte(entry.Key))
			if err != nil {
				return err
			}
			if k.awaited && k.timer < entry.At {
				continue // noted again since, for sooner
			}
			k.awaited = k.awaited && k.timer != entry.At // what is noted for later stays
			until := watermark                           // a key's timers fire in the order of their positions
			if limit < math.MaxInt {
				until = entry.At // at one position, all keys' in the order of time
			}
			next, blocked, err := w.fireKey(p, k, last, until)
			if err != nil {
				return err
			}
			if blocked != never {
				later = append(later, due.Entry{At: blocked, Key: k.key})
			}
			if next != never {
				p.await(k, next)
			}
		}
		if limit < math.MaxInt && !p.timers.Until(watermark) {
			p.fired = p.marks.Begin()
		}
		slices.SortFunc(later, func(a, b due.Entry) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.At, b.At)) })
		for _, entry := range slices.Compact(later) {
			p.timers.Push(entry)
		}
	}
	w.sortFirings()
	return nil
}

// fireKey fires the timers of all functions of a key up to a time. It returns the
// time of the next one after that, and of one up to it that is left, since it was
// set at the chunk's last event; never where there is none.
func (w *worker) fireKey(p *partition, k *keyState, last int32, until int64) (next, blocked int64, err error) {
	next, blocked = never, never
	for _, c := range w.plan.Calls {
		if !c.Function.Keyed {
			continue
		}
		state, err := p.callState(w.plan, k, c)
		if err != nil {
			return 0, 0, err
		}
		w.fire(p, k, c, state, last, until)
		for _, t := range state.keyed.Timers {
			into := &next
			if t.At <= until {
				into = &blocked
			}
			if *into == never || t.At < *into {
				*into = t.At
			}
		}
	}
	return next, blocked, nil
}

// sortFirings puts the timers that fired in the order of their outputs.
func (w *worker) sortFirings() {
	slices.SortStableFunc(w.firings, func(a, b firing) int {
		return cmp.Or(cmp.Compare(a.item, b.item), cmp.Compare(a.at, b.at), cmp.Compare(a.key, b.key),
			cmp.Compare(a.call.Name, b.call.Name), cmp.Compare(a.timer, b.timer))
	})
}

// writeCalled makes the records that a function wrote for an event or timer at
// the item's position.
func (w *worker) writeCalled(it *item, c *step.Call, id, key string, at int64, outputs []step.Output) error {
	s := w.step
	for n, o := range outputs {
		if it.written += len(o.Value); len(o.Value) > w.options.OutputMaxBytes || it.written > outputsOfEventMax*w.options.OutputMaxBytes {
			return w.tooLarge(len(o.Value), o.Topic)
		}
		record := stream.Record{
			Partition: stream.Partition{Topic: o.Topic, Index: it.partition.index},
			Time:      time.UnixMicro(at), Key: []byte(key), Value: o.Value,
		}
		if o.Key != "" {
			record.Partition.Index, record.Key = stream.ByKey, []byte(o.Key)
		}
		from := len(s.headers)
		outputID := o.ID
		if outputID == "" {
			outputID = id + ":" + strconv.Itoa(n)
		}
		s.headers = append(s.headers, stream.Header{Key: header.ID, Value: []byte(outputID)})
		w.provenance(it)
		record.Headers = s.headers[from:len(s.headers):len(s.headers)]
		s.Outputs = append(s.Outputs, record)
		s.carried += len(o.Value)
	}
	return nil
}

// writeFirings makes the records of the timers that fired at an item's
// position, from the n-th firing on, and returns how many there are before the
// next item.
func (w *worker) writeFirings(n, item int, it *item) int {
	for ; n < len(w.firings) && int(w.firings[n].item) == item; n++ {
		f := &w.firings[n]
		it.written = 0
		id := w.timerID(it.partition, f.key, f.call, f.timer, f.at)
		if f.err == nil {
			f.err = w.writeCalled(it, f.call, id, f.key, f.at, f.outputs)
		}
		if f.err != nil {
			w.deadTimer(it, f, id)
		}
	}
	it.written = 0
	return n
}

// deadTimer appends the dead letter of a timer whose call failed.
func (w *worker) deadTimer(it *item, f *firing, id string) {
	timer := *it
	timer.record = &stream.Record{
		Partition: it.record.Partition, Offset: it.record.Offset, Time: time.UnixMicro(f.at),
		Key: []byte(f.key), Value: []byte(f.timer), Headers: []stream.Header{{Key: header.ID, Value: []byte(id)}},
	}
	row := w.plan.Schema.NewRows(1)
	timer.row, timer.time = &row[0], f.at
	timer.fail("timer", fmt.Errorf("%s: %w", f.call.Name, f.err))
	w.deadLetter(&timer)
}

func timeOrZero(micros int64) time.Time {
	if micros == never {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}
