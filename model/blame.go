package model

// Blame says which part is at fault for an error of Predict. The error reports it by a method
// Blame() Blame; without the method, the fault is a row's. Three other methods are optional. Busy()
// bool reports that fewer concurrent calls may succeed. Outage() bool reports that no call
// succeeds, whatever its rows. RetryAfter() time.Duration says how long callers must wait.
type Blame int

// The values of Blame.
const (
	BlameRows   Blame = iota // one of the rows, or unknown
	BlameModel               // the model: it answered, but without scores; the rows may be the cause
	BlameWay                 // the connection: no answer in time, or none at all; says nothing about the rows
	BlameAnswer              // the answer to the row: it does not fit the model's outputs; a retry may bring one that does
	BlameSource              // the source that a row refers to for its content; says nothing about the row or the model
)
