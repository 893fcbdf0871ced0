package header

// ClientEvent is tenant/client/event id of an event that a client sent through a gateway. All
// records made from the event carry it.
const ClientEvent = "x-client-event"

// ClientCausal and ClientPriority carry what a client sent with its event in addition to ids: the
// id of the event that caused it, and its priority, 1 to 9.
const (
	ClientCausal   = "x-client-causal"
	ClientPriority = "x-client-priority"
)

// Cancel is the ClientEvent of an event that its client cancelled. A record with this header is not
// an event: a pipeline that reads it ends the event if the event is queued.
const Cancel = "x-client-cancel"

// Headers of the records of a gateway's topics, in addition to ClientEvent.
const (
	Inbox     = prefix + "inbox"     // type of an inbox record: event, outcome
	Sequence  = prefix + "sequence"  // sequence number that the client gave the event
	Causal    = prefix + "causal"    // id of the event that caused this one
	Priority  = prefix + "priority"  // priority of the event, 0 to 9
	Timestamp = prefix + "timestamp" // time from the client, RFC 3339
	Seq       = prefix + "seq"       // sequence number of a result among those of its client
	Status    = prefix + "status"    // status of a result
	Attempt   = prefix + "attempt"   // attempt that made a partial result, from 1; absent if partial results are made once
	Code      = prefix + "code"      // error code, for programs
	Retryable = prefix + "retryable" // "true": the client may send the event again
	After     = prefix + "after"     // milliseconds until the client may send it again
	Duplicate = prefix + "duplicate" // "true": the result was sent before
)
