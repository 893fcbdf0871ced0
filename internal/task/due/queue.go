// Package due is the queue of a partition's future work in event time: groups end, timers of
// functions fire, the windows of silent keys end, and silent keys are forgotten.
package due

// Queue holds the due items of a partition by (time, kind, key, name). An item that is due at
// a position of the log comes before the event there. Items come one at a time, in this order.
// An item that another one sets joins the queue at once. So the number of steps in which time
// moves makes no difference.
//
// Each kind has a lane. The entry of a Group is a state key: the name of the group, the key,
// and the value of `by`. The entry of a Timer is a key, for the first of its timers. The timers
// of a key come in the order of (function, timer).
type Queue [kinds]Lane

// Kind is the kind of a due item. At one time, kinds come in this order.
type Kind uint8

// The kinds.
const (
	Group   Kind = iota // a group ends, or one that ended is forgotten; or what waits for a join goes on or is forgotten
	Timer               // a timer of a function fires
	Windows             // the windows of a silent key end
	Keys                // a silent key is forgotten
	kinds
)
