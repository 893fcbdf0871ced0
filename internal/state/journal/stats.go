package journal

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/afterbay/afterbay/internal/state/packed"
)

// Stats holds the counters of a journal.
type Stats struct {
	Answers uint64  `json:"answers"` // stored answers
	Bytes   uint64  `json:"bytes"`   // their size in state
	Models  []Count `json:"models"`  // by name
}

// Count counts the requests to a model since the journal began.
type Count struct {
	Model string `json:"model"`
	Calls uint64 `json:"calls"` // answered calls, which cost money
	Hits  uint64 `json:"hits"`  // requests that used the answer of such a call
	// Again counts the calls for a request that already had an answer. They were paid twice, for
	// example because a late call was repeated. A call that was in flight at a crash has no stored
	// answer, so its repetition does not count here.
	Again uint64 `json:"again,omitempty"`
	// Paid and Saved are the units, calls or tokens, that the calls cost and that the hits would
	// have cost.
	Paid  uint64 `json:"paid"`
	Saved uint64 `json:"saved"`
	// Price is the price of a unit, as of the newest answer; 0 is unknown.
	Price float64 `json:"price,omitempty"`
}

// Add adds the counters of another journal.
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

// of returns the count of a model. It adds one if needed.
func (s *Stats) of(model string) *Count {
	i, found := slices.BinarySearchFunc(s.Models, model, func(c Count, name string) int { return cmp.Compare(c.Model, name) })
	if !found {
		s.Models = slices.Insert(s.Models, i, Count{Model: model})
	}
	return &s.Models[i]
}

// ReadStats decodes the state entry of kind statekey.JournalHead.
func ReadStats(head []byte) (Stats, error) {
	h, err := readHead(head)
	return h.Stats, err
}

// head is the part of a journal that is written with each transaction. The answers have the numbers
// from first to next-1.
type head struct {
	first, next uint64
	Stats
}

const (
	headFormat    = 3
	formatNoAgain = 2 // also readable; format 1 had no prices
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

// readHead decodes the result of append. nil is the head of an empty journal.
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
