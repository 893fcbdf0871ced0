package task

import "github.com/afterbay/afterbay/internal/task/operator"

// effect says how an outcome is handled when the records of a chunk are written.
type effect struct {
	ended     bool // observers see the event, and its entry leaves the async queue
	left      bool // observers see it as dropped
	collected bool // observers see it as collected
	told      bool // its client is notified that it ended
	counted   counter
}

// counter names the count of a transaction that an outcome increments. Late events are counted
// separately.
type counter uint8

const (
	none counter = iota
	dropped
	repeats
	notices
	counters
)

var effects = [...]effect{
	operator.Active:    {ended: true, told: true},
	operator.Filtered:  {ended: true, told: true, left: true, counted: dropped},
	operator.Cancelled: {ended: true, told: true, left: true, counted: dropped},
	operator.Late:      {ended: true, told: true, left: true, counted: dropped},
	operator.Diverted:  {ended: true, told: true, left: true, counted: dropped},
	operator.Duplicate: {ended: true, told: true, left: true, counted: repeats},
	operator.Collected: {ended: true, collected: true},
	operator.Known:     {ended: true, told: true, collected: true},
	operator.Joined:    {ended: true, told: true, collected: true},
	operator.Recovered: {ended: true, told: true},
	operator.Queued:    {},
	operator.Failed:    {ended: true, told: true},
	operator.Notice:    {counted: notices},
	operator.Tick:      {},
}
