package operator

import "github.com/afterbay/afterbay/model"

// Batch says how an operator calls a model or service for many events at once.
type Batch struct {
	Kind      string // kind of the step: `score`, `lookup` or `fetch`
	Model     model.Model
	Name      string   // name@version
	Asks      string   // hash of the fields of the pipeline file that affect the answers of Model
	Size      int      // most rows of a call
	ByLength  bool     // rows of similar length share calls
	Contents  bool     // some inputs are content that Model fetches
	Shared    bool     // Model shares calls with other members, and counts them itself
	Finds     bool     // Model answers with rows of a lookup or fetch, which are not predictions and are counted by the lookup
	Calling   *Calling // nil calls the model directly, and an error fails the event
	Async     bool     // events are queued before the first call
	Partial   *Partial // streams the only output, a text, as records while it grows; nil disables this
	OnFailure []Placed // operators for an event without an answer; it becomes a dead letter unless they emit
}

// How implements Batched for types that embed a Batch.
func (b *Batch) How() *Batch { return b }
