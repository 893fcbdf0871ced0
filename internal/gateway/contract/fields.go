package contract

import "github.com/afterbay/afterbay/internal/gateway/wire"

const (
	idPattern          = `^[A-Za-z0-9._:@-]{1,128}$`
	correlationPattern = `^[ -~]{1,128}$`
	wordPattern        = `^[a-z_]+$`
)

// frames describes each frame.
var frames = map[string]string{
	"connect":      "The first frame of a connection: who it is, and where its results go on.",
	"event":        "An event. It is answered by accepted once it is durable in the log, by backpressure or by error; and, when it was accepted, by exactly one result that ends it.",
	"cancel":       "The client gives up an event. It is answered by accepted once that is durable, by backpressure or by error. An event that has no result yet ends as rejected, code cancelled; its model is no longer asked.",
	"ack":          "All results up to a cursor were received.",
	"pong":         "The answer to ping.",
	"refresh":      "A new token, before the one before expires.",
	"connected":    "The answer to connect: results are those strictly after cursor.",
	"accepted":     "An event is durable in the log.",
	"result":       "A result of an event, and the cursor after it.",
	"error":        "What was wrong with a frame; with seq and cursor, a result of a submission that was refused while its event id has, or will have, another end. The connection stays open.",
	"backpressure": "An event was not accepted: send it again, later.",
	"ping":         "Asks for pong.",
	"refreshed":    "The answer to refresh.",
	"gap":          "Results after requested are no longer retained: the next one is after earliest.",
	"disconnect":   "Why the connection ends: the last frame.",
}

// fields describes the fields of frames and their limits. A key is a field name, or a frame name
// and a field name.
var fields = map[string]schema{
	"id":                   {"description": "Of the request, which its answer has."},
	"token":                {"description": "Whose connection it is; not needed where the request had one."},
	"sessionId":            {"description": "The newest connection of a session replaces the others.", "maxLength": 128},
	"maxInflight":          {"description": "Lowers pendingLimit.", "minimum": 0},
	"ackEvery":             {"description": "Results between acks, which the client promises; 0 is none.", "minimum": 0},
	"cursor":               {"description": "Opaque, and of this client: results go on strictly after it."},
	"from":                 {"description": "Where to go on without a cursor.", "enum": []string{wire.FromLatest, wire.FromEarliest}},
	"eventId":              {"description": "Of the event, one of its own: an event that comes again by the same id has the same result.", "pattern": idPattern},
	"sequence":             {"description": "From 1, in the order of the client's events; left out, the event has no order.", "minimum": 0},
	"causalId":             {"description": "Id of the event that this one comes of.", "pattern": idPattern},
	"timestamp":            {"description": "When it happened."},
	"priority":             {"description": "The highest is 9.", "minimum": 0, "maximum": wire.PriorityMax},
	"traceparent":          {"description": "Of the W3C's trace context, version 00.", "minLength": 55, "maxLength": 55},
	"correlationId":        {"description": "Goes on with all that is made of the event. It is made where the client gives none.", "pattern": correlationPattern},
	"payload":              {"description": "Any JSON."},
	"clientId":             {"description": "Of the token.", "pattern": idPattern},
	"tenantId":             {"description": "Of the token.", "pattern": idPattern},
	"epoch":                {"description": "Of the log: one that lost records has another.", "pattern": `^[0-9]*$`},
	"recovered":            {"description": "Nothing is missing between the cursor that was asked for and cursor; otherwise gap follows."},
	"pingMs":               {"description": "Between pings, in milliseconds.", "minimum": 0},
	"pongTimeoutMs":        {"description": "How long a ping may stay unanswered, in milliseconds; 0 where there are none.", "minimum": 0},
	"pendingLimit":         {"description": "Events of the connection that may wait for their result.", "minimum": 0},
	"maxMessageBytes":      {"description": "Of a message of the client.", "minimum": 0},
	"expiresAt":            {"description": "When the token does; left out, never."},
	"duplicate":            {"description": "The event was sent before: this is what there was."},
	"seq":                  {"description": "Number of the result among those of its client, dense from 1: a hole is a loss, what is not greater a repeat.", "minimum": 1},
	"model":                {"description": "Name and version, of several separated by comma and space."},
	"status":               {"description": "partial comes before the one that ends the event, any other.", "enum": []wire.Status{wire.StatusOK, wire.StatusRejected, wire.StatusDeadLettered, wire.StatusExpired, wire.StatusPartial}},
	"attempt":              {"description": "By which a partial result was made, from 1: those of lower ones are to be dropped. A partial result without it was made once, and stays.", "minimum": 1},
	"pending":              {"description": "Events that wait for their result.", "minimum": 0},
	"limit":                {"description": "Of pending.", "minimum": 0},
	"retryAfterMs":         {"description": "When to try again, in milliseconds.", "minimum": 0},
	"requested":            {"description": "The cursor that was asked for."},
	"earliest":             {"description": "The cursor from which results are retained."},
	"reconnect":            {"description": "The client is to come again, after retryAfterMs."},
	"reason":               {"description": "Why, for programs.", "pattern": wordPattern},
	"backpressure.reason":  {"description": "Why, for programs.", "enum": []string{wire.ReasonPendingLimit, wire.ReasonTenantQuota, wire.ReasonOverload, wire.ReasonDraining}},
	"disconnect.code":      {"description": "Of the WebSocket's close frame; from 4500 on the client is to come again.", "minimum": 4000, "maximum": 4999},
	"problem.code":         {"description": "What it is, for programs.", "pattern": wordPattern},
	"problem.message":      {"description": "What is wrong and what to do next, for people."},
	"problem.retryable":    {"description": "The same may be sent again; of a result, with another id."},
	"problem.attempts":     {"description": "How often it was tried.", "minimum": 0},
	"problem.retryAfterMs": {"description": "When to try again, in milliseconds; left out where that is not known.", "minimum": 0},
	"refresh.token":        {"description": "The new one, of the same client."},
	"result.timestamp":     {"description": "Time of the event, as the pipeline has it; of one that was rejected or has expired, when that was decided."},
	"result.causalId":      {"description": "Id of the event that the event came of.", "pattern": idPattern},
	"result.correlationId": {"description": "That of the event.", "pattern": correlationPattern},
}
