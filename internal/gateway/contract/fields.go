package contract

import "github.com/afterbay/afterbay/internal/gateway/wire"

const (
	idPattern          = `^[A-Za-z0-9._:@-]{1,128}$`
	correlationPattern = `^[ -~]{1,128}$`
	wordPattern        = `^[a-z_]+$`
)

// frames describes each frame.
var frames = map[string]string{
	"connect":      "The first frame of a connection: the client, and the cursor to resume its results after.",
	"event":        "An event. The gateway answers with accepted once the event is durable in the log, with backpressure or with error. An accepted event gets exactly one final result.",
	"cancel":       "The client gives up an event. The gateway answers with accepted once that is durable, with backpressure or with error. An event without a result then ends as rejected, code cancelled; its model is not called any more.",
	"ack":          "All results up to a cursor were received.",
	"pong":         "The answer to ping.",
	"refresh":      "A new token, sent before the current one expires.",
	"connected":    "The answer to connect: results follow that are strictly after cursor.",
	"accepted":     "An event is durable in the log.",
	"result":       "A result of an event, and the cursor after it.",
	"error":        "The error of a frame. With seq and cursor: the result of a refused submission; its event id has, or will have, another result. The connection stays open.",
	"backpressure": "An event was not accepted: send it again, later.",
	"ping":         "Asks for pong.",
	"refreshed":    "The answer to refresh.",
	"gap":          "Results after requested are no longer retained: the next one is after earliest.",
	"disconnect":   "The reason for the end of the connection: the last frame.",
}

// fields describes the fields of frames and their limits. A key is a field name, or a frame name
// and a field name.
var fields = map[string]schema{
	"id":                   {"description": "Id of the request; its answer has the same id."},
	"token":                {"description": "Token of the client; not needed if the request had one."},
	"sessionId":            {"description": "The newest connection of a session replaces the others.", "maxLength": 128},
	"maxInflight":          {"description": "Lowers pendingLimit.", "minimum": 0},
	"ackEvery":             {"description": "The client promises an ack after this many results; 0 is no promise.", "minimum": 0},
	"cursor":               {"description": "Opaque cursor of this client: results continue strictly after it."},
	"from":                 {"description": "Start of the results without a cursor.", "enum": []string{wire.FromLatest, wire.FromEarliest}},
	"eventId":              {"description": "Unique id of the event: an event that is sent again with the same id has the same result.", "pattern": idPattern},
	"sequence":             {"description": "From 1, in the order of the client's events; left out, the event has no order.", "minimum": 0},
	"causalId":             {"description": "Id of the event that caused this one.", "pattern": idPattern},
	"timestamp":            {"description": "When it happened."},
	"priority":             {"description": "The highest is 9.", "minimum": 0, "maximum": wire.PriorityMax},
	"traceparent":          {"description": "Of the W3C's trace context, version 00.", "minLength": 55, "maxLength": 55},
	"correlationId":        {"description": "All records of the event carry it. The gateway creates it if the client sends none.", "pattern": correlationPattern},
	"payload":              {"description": "Any JSON."},
	"clientId":             {"description": "Of the token.", "pattern": idPattern},
	"tenantId":             {"description": "Of the token.", "pattern": idPattern},
	"epoch":                {"description": "Id of the log: a log that lost records gets another id.", "pattern": `^[0-9]*$`},
	"recovered":            {"description": "No result is missing between the requested cursor and cursor; otherwise gap follows."},
	"pingMs":               {"description": "Between pings, in milliseconds.", "minimum": 0},
	"pongTimeoutMs":        {"description": "How long a ping may stay unanswered, in milliseconds; 0 without pings.", "minimum": 0},
	"pendingLimit":         {"description": "Events of the connection that may wait for their result.", "minimum": 0},
	"maxMessageBytes":      {"description": "Of a message of the client.", "minimum": 0},
	"expiresAt":            {"description": "Time at which the token expires; left out if it never expires."},
	"duplicate":            {"description": "The event was sent before: this is its earlier answer."},
	"seq":                  {"description": "Number of the result among those of its client, dense from 1: a gap is a loss, and a number that does not increase is a repeat.", "minimum": 1},
	"model":                {"description": "Name and version, of several separated by comma and space."},
	"status":               {"description": "partial results come before the final result of the event, any other status is final.", "enum": []wire.Status{wire.StatusOK, wire.StatusRejected, wire.StatusDeadLettered, wire.StatusExpired, wire.StatusPartial}},
	"attempt":              {"description": "Attempt that made a partial result, from 1: the client drops results of lower attempts. A partial result without it was made once, and stays.", "minimum": 1},
	"pending":              {"description": "Events that wait for their result.", "minimum": 0},
	"limit":                {"description": "Of pending.", "minimum": 0},
	"retryAfterMs":         {"description": "When to try again, in milliseconds.", "minimum": 0},
	"requested":            {"description": "The requested cursor."},
	"earliest":             {"description": "Results are retained from this cursor on."},
	"reconnect":            {"description": "The client may reconnect after retryAfterMs."},
	"reason":               {"description": "Why, for programs.", "pattern": wordPattern},
	"backpressure.reason":  {"description": "Why, for programs.", "enum": []string{wire.ReasonPendingLimit, wire.ReasonTenantQuota, wire.ReasonOverload, wire.ReasonDraining}},
	"disconnect.code":      {"description": "Code of the WebSocket's close frame; from 4500 on the client may reconnect.", "minimum": 4000, "maximum": 4999},
	"problem.code":         {"description": "Kind of the error, for programs.", "pattern": wordPattern},
	"problem.message":      {"description": "The error and the next step, for people."},
	"problem.retryable":    {"description": "The client may send the same again; after a result, with another id."},
	"problem.attempts":     {"description": "Number of attempts.", "minimum": 0},
	"problem.retryAfterMs": {"description": "When to try again, in milliseconds; left out if unknown.", "minimum": 0},
	"refresh.token":        {"description": "The new token, of the same client."},
	"result.timestamp":     {"description": "Time of the event in the pipeline. For a rejected or expired event: the time of that decision."},
	"result.causalId":      {"description": "Id of the event that caused the event.", "pattern": idPattern},
	"result.correlationId": {"description": "That of the event.", "pattern": correlationPattern},
}
