// Package due implements the timer queue of a partition, in event time. Groups end, timers of
// functions fire, the windows of silent keys end, and silent keys expire.
package due

// Queue holds the due items of a partition by (time, kind, key, name). An item that is due at a
// position of the log comes before the event there. Items come one at a time, in this order. An
// item that another one sets joins the queue at once. So the result does not depend on the number
// of steps that time advances in.
//
// Each kind has a lane. The entry of a Group is a state key: the name of the group, the key, and
// the value of `by`. The entry of a Timer is a key, for the first of its timers. The timers of a
// key come in the order of (function, timer).
type Queue [kinds]Lane

// Kind is the kind of a due item. At equal times, kinds come in this order.
type Kind uint8

// The kinds.
const (
	Group   Kind = iota // a group ends, or an ended group expires; or a waiting event of a join continues or expires
	Timer               // a timer of a function fires
	Windows             // the windows of a silent key end
	Keys                // a silent key expires
	kinds
)
