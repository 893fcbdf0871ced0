package operator

import "github.com/afterbay/afterbay/model"

// Batch is how an operator asks for many events at once.
type Batch struct {
	Kind      string // of the step: `score`, `lookup` or `fetch`
	Model     model.Model
	Name      string   // name@version
	Asks      string   // hash of the fields of the file that decide what Model answers
	Size      int      // most rows of a call
	ByLength  bool     // rows of like length share calls
	Contents  bool     // some of what is asked is content, which Model finds
	Shared    bool     // Model shares calls with others, and counts them
	Finds     bool     // Model answers with rows of a lookup or fetch, which are no predictions and count themselves
	Calling   *Calling // nil calls at once, and an error is the event's
	Async     bool     // events are queued before the first call
	Partial   *Partial // records of its only output, a text, as it comes; nil is none
	OnFailure []Placed // for an event that has no answer: it is a dead letter unless they emit
}

// How implements Batched for what has a Batch.
func (b *Batch) How() *Batch { return b }
