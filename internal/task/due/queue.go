// Package due says what comes due beside a partition, and when: groups end, timers of
// functions fire, the windows of silent keys end, and silent keys are forgotten.
package due

// Queue is all that is to come due beside a partition, by (time, kind, key, name). What is
// due at a position of the log comes before the event there, one at a time, in this order;
// what one sets is in the queue for the next. So it makes no difference in how many steps
// time moves on.
//
// Each kind has a lane. An entry of Group is a state key, which has the group's name, the key
// and what it is grouped by. An entry of Timer is a key, for the first of its timers: those of
// a key come by the names of function and timer.
type Queue [kinds]Lane

// Kind is what comes due. At one time kinds come in this order.
type Kind uint8

// The kinds.
const (
	Group   Kind = iota // a group ends, or one that ended is forgotten; or what waits for a join goes on or is forgotten
	Timer               // a timer of a function fires
	Windows             // the windows of a silent key end
	Keys                // a silent key is forgotten
	kinds
)
