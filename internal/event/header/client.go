package header

// ClientEvent is tenant/client/event id of an event that a client sent by a
// gateway. It goes on with all that is made of the event.
const ClientEvent = "x-client-event"

// ClientCausal and ClientPriority are what a client said of its event beside its ids: the
// id of the event that it comes of, and its priority, 1 to 9.
const (
	ClientCausal   = "x-client-causal"
	ClientPriority = "x-client-priority"
)

// Cancel is the ClientEvent of an event that its client gave up. A record that has it
// is no event: a pipeline that reads it ends the event where that is queued.
const Cancel = "x-client-cancel"

// Headers of the records of a gateway's topics, beside ClientEvent.
const (
	Inbox     = prefix + "inbox"     // what a record of the inbox is: event, outcome
	Sequence  = prefix + "sequence"  // number that the client gave the event
	Causal    = prefix + "causal"    // id of the event that this one comes of
	Priority  = prefix + "priority"  // of the event, 0 to 9
	Timestamp = prefix + "timestamp" // RFC 3339, of the client
	Seq       = prefix + "seq"       // number of a result among those of its client
	Status    = prefix + "status"    // of a result
	Attempt   = prefix + "attempt"   // by which a partial result was made, from 1; none where that is made once
	Code      = prefix + "code"      // of what went wrong, for programs
	Retryable = prefix + "retryable" // "true": the client may send the event again
	After     = prefix + "after"     // milliseconds until it may
	Duplicate = prefix + "duplicate" // "true": a result that there was before
)
