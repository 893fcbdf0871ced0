package streamtest

import (
	"testing"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
)

// closing notes that it was closed.
type closing struct {
	*memory.Log
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return c.Log.Close()
}

// The logs of several tries may be on the same brokers: members of the try before
// would stay in their groups while the next waits for these to be empty.
func TestCaseThatStartsAgainLeavesNoMemberBehind(t *testing.T) {
	var logs []*closing
	runCases(t, func(t *testing.T) stream.Log {
		for i, log := range logs {
			if !log.closed {
				t.Errorf("the log of try %d is open", i)
			}
		}
		logs = append(logs, &closing{Log: memory.New(memory.Options{})})
		return logs[len(logs)-1]
	}, false, []testCase{{"Stalls", func(h *harness) {
		h.topic("in", 1)
		h.join("g", "in").own(1)
		if len(logs) < 3 {
			panic(fencedWhilePolling)
		}
	}}}, nil)
	if len(logs) != 3 {
		t.Errorf("%d tries", len(logs))
	}
}
