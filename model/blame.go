package model

// Blame says whose fault an error of Predict is. The error says so by a method Blame() Blame;
// without one it is that of a row. Other methods say more: Busy() bool, that fewer calls at a
// time may succeed; Outage() bool, that no call succeeds whatever its rows;
// RetryAfter() time.Duration, how long callers have to wait.
type Blame int

// The blames.
const (
	BlameRows   Blame = iota // one of the rows, or unknown
	BlameModel               // the model, which answered, but not with scores: it may be the rows
	BlameWay                 // no answer in time or at all: it says nothing about the rows
	BlameAnswer              // the answer to the row, which does not fit the model's outputs: another try may bring one that does
	BlameSource              // the place that a row names, from which something of it comes: it says nothing about the row, nor about the model
)
