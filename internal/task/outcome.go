package task

// outcome is what became of an event. An event begins as active. It ends as one of the
// others, or stays active where it passes every stage.
type outcome uint8

const (
	active    outcome = iota // stages are left, or all are done
	filtered                 // a route dropped it
	cancelled                // its client cancelled it
	late                     // before the watermark, and dropped
	diverted                 // before the watermark, and written to the late topic
	duplicate                // its id was seen before
	collected                // member of a group, which goes on as one event
	known                    // its group had it before
	recovered                // given up, and on_failure wrote something instead
	queued                   // in the async queue, and gone on with later
	failed                   // a dead letter: Failure says where and why
	notice                   // no event: the watermark of a source, a cancel, or a redrive of another pipeline
	tick                     // no event: a position at which time moves on
)

// effect is what follows from an outcome when the records of a chunk are made.
type effect struct {
	ended   bool // observers are told of the event, and its entry leaves the async queue
	left    bool // they call it dropped
	told    bool // its client is told that it ended
	counted counter
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
	active:    {ended: true, told: true},
	filtered:  {ended: true, told: true, left: true, counted: dropped},
	cancelled: {ended: true, told: true, left: true, counted: dropped},
	late:      {ended: true, told: true, left: true, counted: dropped},
	diverted:  {ended: true, told: true, left: true, counted: dropped},
	duplicate: {ended: true, told: true, left: true, counted: repeats},
	collected: {ended: true},
	known:     {ended: true, told: true},
	recovered: {ended: true, told: true},
	queued:    {},
	failed:    {ended: true, told: true},
	notice:    {counted: notices},
	tick:      {},
}

// become ends an active event. An event that has ended stays what it is: an output that
// is too large makes a dead letter of a queued event, which stays queued.
func (it *item) become(o outcome) {
	if it.outcome == active {
		it.outcome = o
	}
}
