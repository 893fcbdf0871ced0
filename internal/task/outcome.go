package task

import "github.com/afterbay/afterbay/internal/task/operator"

// effect is what follows from an outcome when the records of a chunk are made.
type effect struct {
	ended     bool // observers are told of the event, and its entry leaves the async queue
	left      bool // they call it dropped
	collected bool // they call it collected
	told      bool // its client is told that it ended
	counted   counter
}

// counter is one of the counts of a step that an event may raise beside that of late
// events.
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
