package journal

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/afterbay/afterbay/internal/state/packed"
)

// Stats says what a journal holds and what it was good for.
type Stats struct {
	Answers uint64  `json:"answers"` // held
	Bytes   uint64  `json:"bytes"`   // of state that they take
	Models  []Count `json:"models"`  // by name
}

// Count is what became of the requests to a model, since the journal began.
type Count struct {
	Model string `json:"model"`
	Calls uint64 `json:"calls"` // answers that came back, paid for
	Hits  uint64 `json:"hits"`  // requests that took the answer of such a call
	// Again are those of the calls whose request had an answer: paid once more, such
	// as a late one that was asked for again meanwhile. What was in flight at a kill
	// and is asked again has left no answer, and is none of these.
	Again uint64 `json:"again,omitempty"`
	// Paid and Saved are the units, calls or tokens, that the calls cost and that
	// the hits would have cost.
	Paid  uint64 `json:"paid"`
	Saved uint64 `json:"saved"`
	// Price is what a unit costs, as of the newest answer; 0 is unknown.
	Price float64 `json:"price,omitempty"`
}

// Add adds what another journal holds and was good for.
func (s *Stats) Add(other Stats) {
	s.Answers += other.Answers
	s.Bytes += other.Bytes
	for _, c := range other.Models {
		sum := s.of(c.Model)
		sum.Calls += c.Calls
		sum.Hits += c.Hits
		sum.Again += c.Again
		sum.Paid += c.Paid
		sum.Saved += c.Saved
		sum.Price = cmp.Or(c.Price, sum.Price)
	}
}

// of returns the count of a model, which it adds where there is none.
func (s *Stats) of(model string) *Count {
	i, found := slices.BinarySearchFunc(s.Models, model, func(c Count, name string) int { return cmp.Compare(c.Model, name) })
	if !found {
		s.Models = slices.Insert(s.Models, i, Count{Model: model})
	}
	return &s.Models[i]
}

// ReadStats reads the entry of the state whose kind is statekey.JournalHead.
func ReadStats(head []byte) (Stats, error) {
	h, err := readHead(head)
	return h.Stats, err
}

// head is the part of a journal that is written with each step: its answers have
// the numbers from first to before next.
type head struct {
	first, next uint64
	Stats
}

const (
	headFormat    = 3
	formatNoAgain = 2 // which is read too; 1 had no prices
)

func (h *head) append(b []byte) []byte {
	b = append(b, headFormat)
	for _, n := range [...]uint64{h.first, h.next, h.Bytes, uint64(len(h.Models))} {
		b = binary.AppendUvarint(b, n)
	}
	for _, c := range h.Models {
		b = packed.AppendText(b, c.Model)
		for _, n := range [...]uint64{c.Calls, c.Hits, c.Paid, c.Saved, c.Again} {
			b = binary.AppendUvarint(b, n)
		}
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(c.Price))
	}
	return b
}

// readHead reads what append wrote; nil is the head of a journal that holds
// nothing.
func readHead(b []byte) (head, error) {
	var h head
	if b == nil {
		return h, nil
	}
	damaged := fmt.Errorf("head of the journal: %w", packed.ErrDamaged)
	if len(b) == 0 || b[0] != headFormat && b[0] != formatNoAgain {
		return head{}, damaged
	}
	r := packed.Reader{Rest: b[1:]}
	var models uint64
	for _, n := range [...]*uint64{&h.first, &h.next, &h.Bytes, &models} {
		*n = r.Number()
	}
	for ; models > 0 && !r.Bad; models-- {
		c := Count{Model: string(r.Text())}
		for _, n := range [...]*uint64{&c.Calls, &c.Hits, &c.Paid, &c.Saved} {
			*n = r.Number()
		}
		if b[0] != formatNoAgain {
			c.Again = r.Number()
		}
		c.Price = math.Float64frombits(r.Word())
		if last := len(h.Models) - 1; last >= 0 && h.Models[last].Model >= c.Model || !(c.Price >= 0 && c.Price <= math.MaxFloat64) {
			return head{}, damaged
		}
		h.Models = append(h.Models, c)
	}
	if !r.Whole() || h.first > h.next {
		return head{}, damaged
	}
	h.Answers = h.next - h.first
	return h, nil
}
