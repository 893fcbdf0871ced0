package sequence

import (
	"testing"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/stream"
)

// TestInputSaysWhatTheClientSaid makes the record that the pipeline reads: meta.causalId and
// meta.priority are its headers.
func TestInputSaysWhatTheClientSaid(t *testing.T) {
	for _, c := range []struct {
		event            wire.Event
		causal, priority string
	}{
		{wire.Event{Causal: "e0", Priority: 9}, "e0", "9"}, {wire.Event{}, "", ""},
	} {
		r := inputRecord("in", "acme/c1/e1", nil, &c.event, &stream.Record{})
		if got := header.Get(&r, header.ClientCausal); got != c.causal {
			t.Errorf("causal %q, want %q", got, c.causal)
		}
		if got := header.Get(&r, header.ClientPriority); got != c.priority || (header.Value(&r, header.ClientPriority) == nil) != (c.priority == "") {
			t.Errorf("priority %q, want %q", got, c.priority)
		}
	}
}
