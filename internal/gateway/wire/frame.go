package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// Protocol is the WebSocket subprotocol: text frames with one JSON object each.
const Protocol = "afterbay.v1"

// Codes of errors in frames and results.
const (
	CodeBadFrame        = "bad_frame"  // invalid JSON, or an unknown type or field
	CodeBadEvent        = "bad_event"  // Validate rejected the event
	CodeBadCursor       = "bad_cursor" // of another client, or damaged
	CodeBadToken        = "bad_token"
	CodeUnauthorized    = "unauthorized" // not connected yet
	CodeEventIDConflict = "event_id_conflict"
	CodeSequence        = "sequence" // a gap that is too large, or a number that was used
	CodeExpired         = "expired"
	CodeTimestamp       = "timestamp_ahead"
	CodeDeadLettered    = "dead_lettered" // unless the pipeline sets another code
	CodeTooLarge        = "too_large"     // the payload is too large
	CodeLate            = "late"          // the event is too late for the pipeline
	CodeTenantQuota     = "tenant_quota"  // too many events of the tenant wait
	CodeCancelled       = "cancelled"     // by the client
	CodeUnknownEvent    = "unknown_event" // the event to cancel never came, or is forgotten
	CodeInternal        = "internal"
)

// Values of Backpressure.Reason: why an event was not accepted.
const (
	ReasonPendingLimit = "pending_limit"
	ReasonTenantQuota  = "tenant_quota"
	ReasonOverload     = "overload"
	ReasonDraining     = "draining"
)

// Frame is a message of the protocol. Its name is the JSON field "type".
type Frame interface{ Name() string }

// head is the field "type" of a frame. It stores nothing: Encode writes the type, and parse has
// read it before.
type head struct {
	Type nothing `json:"type,omitzero"`
}

type nothing struct{}

func (*nothing) UnmarshalJSON([]byte) error { return nil }

// Frames of clients.
type (
	// Connect is the first frame of a connection.
	Connect struct {
		head
		ID          int64   `json:"id,omitempty"` // request id; the answer repeats it
		Token       string  `json:"token,omitempty"`
		SessionID   string  `json:"sessionId,omitempty"` // the newest connection of a session ends the others at its gateway
		Resume      *Resume `json:"resume,omitempty"`
		MaxInflight int     `json:"maxInflight,omitempty"` // lowers pendingLimit
		AckEvery    int     `json:"ackEvery,omitempty"`    // results between acks; the client promises it
	}
	// Submission is an event.
	Submission struct {
		head
		EventID       string          `json:"eventId"`
		Sequence      int64           `json:"sequence,omitempty"`
		CausalID      string          `json:"causalId,omitempty"`
		Timestamp     time.Time       `json:"timestamp,omitzero"`
		Priority      int             `json:"priority,omitempty"`
		TraceParent   string          `json:"traceparent,omitempty"`
		CorrelationID string          `json:"correlationId,omitempty"`
		Payload       json.RawMessage `json:"payload"`
	}
	// Cancel cancels an event that was accepted.
	Cancel struct {
		head
		EventID string `json:"eventId"`
	}
	// Ack confirms that the client has received all results up to a cursor.
	Ack struct {
		head
		Cursor string `json:"cursor"`
	}
	// Pong answers Ping.
	Pong struct{ head }
	// Refresh replaces the token before it expires.
	Refresh struct {
		head
		ID    int64  `json:"id,omitempty"`
		Token string `json:"token"`
	}
)

// Resume says where a connection starts: strictly after Cursor, or at From "latest" or "earliest".
type Resume struct {
	Cursor string `json:"cursor,omitempty"`
	From   string `json:"from,omitempty"`
}

// Values of Resume.From.
const (
	FromLatest   = "latest"
	FromEarliest = "earliest"
)

// Frames of servers.
type (
	// Connected answers Connect. The connection delivers the results strictly after Cursor.
	// Recovered means that no result is missing between the requested cursor and Cursor; otherwise
	// a Gap follows. The number of results is unknown at this point.
	Connected struct {
		head
		ID              int64     `json:"id,omitempty"`
		ClientID        string    `json:"clientId"`
		TenantID        string    `json:"tenantId"`
		Epoch           string    `json:"epoch"`
		Cursor          string    `json:"cursor,omitempty"`
		Recovered       bool      `json:"recovered"`
		PingMs          int64     `json:"pingMs"`
		PongTimeoutMs   int64     `json:"pongTimeoutMs"`
		PendingLimit    int       `json:"pendingLimit"`
		MaxMessageBytes int64     `json:"maxMessageBytes"`
		ExpiresAt       time.Time `json:"expiresAt,omitzero"`
	}
	// Accepted confirms that an event is durable in the log. The sequencer checks later whether its
	// id was used before: the result says so.
	Accepted struct {
		head
		EventID       string `json:"eventId"`
		CorrelationID string `json:"correlationId,omitempty"`
	}
	// ResultFrame is a result and the cursor after it.
	ResultFrame struct {
		head
		Seq           uint64          `json:"seq"`
		Cursor        string          `json:"cursor"`
		EventID       string          `json:"eventId"`
		CausalID      string          `json:"causalId,omitempty"`
		Model         string          `json:"model,omitempty"`
		Status        Status          `json:"status"`
		Attempt       int             `json:"attempt,omitempty"`
		Duplicate     bool            `json:"duplicate,omitempty"`
		Timestamp     time.Time       `json:"timestamp,omitzero"`
		CorrelationID string          `json:"correlationId,omitempty"`
		Payload       json.RawMessage `json:"payload,omitempty"`
		Error         *Error          `json:"error,omitempty"`
	}
	// ErrorFrame is an error in a frame of the client. With Seq and Cursor it is a result with
	// StatusError. The connection stays open.
	ErrorFrame struct {
		head
		ID            int64  `json:"id,omitempty"`
		Seq           uint64 `json:"seq,omitempty"`
		Cursor        string `json:"cursor,omitempty"`
		CorrelationID string `json:"correlationId,omitempty"`
		Error         *Error `json:"error"`
	}
	// Backpressure means that an event was not accepted.
	Backpressure struct {
		head
		Reason        string `json:"reason"`
		EventID       string `json:"eventId,omitempty"`
		CorrelationID string `json:"correlationId,omitempty"`
		Pending       int    `json:"pending,omitempty"`
		Limit         int    `json:"limit,omitempty"`
		RetryAfterMs  int64  `json:"retryAfterMs"`
	}
	// Ping asks for Pong.
	Ping struct{ head }
	// Refreshed answers Refresh.
	Refreshed struct {
		head
		ID        int64     `json:"id,omitempty"`
		ExpiresAt time.Time `json:"expiresAt,omitzero"`
	}
	// Gap means that results after Requested are no longer retained: the next result is after
	// Earliest.
	Gap struct {
		head
		Requested string `json:"requested"`
		Earliest  string `json:"earliest"`
	}
	// Disconnect is the last frame before a close.
	Disconnect struct {
		head
		Code         int    `json:"code"`
		Reason       string `json:"reason"`
		Reconnect    bool   `json:"reconnect"`
		RetryAfterMs int64  `json:"retryAfterMs,omitempty"`
	}
)

// Name returns "connect".
func (*Connect) Name() string { return "connect" }

// Name returns "event".
func (*Submission) Name() string { return "event" }

// Name returns "cancel".
func (*Cancel) Name() string { return "cancel" }

// Name returns "ack".
func (*Ack) Name() string { return "ack" }

// Name returns "pong".
func (*Pong) Name() string { return "pong" }

// Name returns "refresh".
func (*Refresh) Name() string { return "refresh" }

// Name returns "connected".
func (*Connected) Name() string { return "connected" }

// Name returns "accepted".
func (*Accepted) Name() string { return "accepted" }

// Name returns "result".
func (*ResultFrame) Name() string { return "result" }

// Name returns "error".
func (*ErrorFrame) Name() string { return "error" }

// Name returns "backpressure".
func (*Backpressure) Name() string { return "backpressure" }

// Name returns "ping".
func (*Ping) Name() string { return "ping" }

// Name returns "refreshed".
func (*Refreshed) Name() string { return "refreshed" }

// Name returns "gap".
func (*Gap) Name() string { return "gap" }

// Name returns "disconnect".
func (*Disconnect) Name() string { return "disconnect" }

// Encode returns the frame as JSON, always valid UTF-8: invalid bytes of a payload become U+FFFD.
// It fails only if a payload is not JSON.
func Encode(f Frame) ([]byte, error) { return Append(nil, f) }

// Append appends the frame to b, encoded as by Encode.
func Append(b []byte, f Frame) ([]byte, error) {
	var err error
	start := len(b)
	switch f := f.(type) {
	case *Accepted:
		return f.append(b), nil
	case *ResultFrame:
		b, err = f.append(b)
	default:
		b, err = appendFrame(b, f)
	}
	if err != nil {
		return b, fmt.Errorf("encode frame %s: %w", f.Name(), err)
	}
	if !utf8.Valid(b[start:]) { // invalid UTF-8 makes a browser close the connection
		b = append(b[:start], toUTF8(b[start:])...)
	}
	return b, nil
}

// toUTF8 returns a copy of b with each invalid byte sequence replaced by U+FFFD.
func toUTF8(b []byte) []byte { return bytes.ToValidUTF8(b, []byte(string(utf8.RuneError))) }

// appendFrame appends any frame.
func appendFrame(b []byte, f Frame) ([]byte, error) {
	body, err := json.Marshal(f)
	if err != nil {
		return b, err
	}
	b = append(append(append(b, `{"type":"`...), f.Name()...), '"')
	if len(body) > len("{}") {
		b = append(b, ',')
	}
	return append(b, body[1:]...), nil
}

// append is a faster appendFrame. Accepted and ResultFrame are most of the traffic.
func (f *Accepted) append(b []byte) []byte {
	b = appendText(append(b, `{"type":"accepted","eventId":`...), f.EventID)
	return append(appendField(b, `,"correlationId":`, f.CorrelationID), '}')
}

func (f *ResultFrame) append(b []byte) (_ []byte, err error) {
	b = strconv.AppendUint(append(b, `{"type":"result","seq":`...), f.Seq, 10)
	b = appendText(append(b, `,"cursor":`...), f.Cursor)
	b = appendText(append(b, `,"eventId":`...), f.EventID)
	b = appendField(b, `,"causalId":`, f.CausalID)
	b = appendField(b, `,"model":`, f.Model)
	b = appendText(append(b, `,"status":`...), string(f.Status))
	if f.Attempt != 0 {
		b = strconv.AppendInt(append(b, `,"attempt":`...), int64(f.Attempt), 10)
	}
	if f.Duplicate {
		b = append(b, `,"duplicate":true`...)
	}
	if !f.Timestamp.IsZero() {
		if b, err = f.Timestamp.AppendText(append(b, `,"timestamp":"`...)); err != nil {
			return b, err
		}
		b = append(b, '"')
	}
	b = appendField(b, `,"correlationId":`, f.CorrelationID)
	if len(f.Payload) > 0 {
		if b, err = appendJSON(append(b, `,"payload":`...), f.Payload); err != nil {
			return b, err
		}
	}
	if f.Error != nil {
		problem, err := json.Marshal(f.Error)
		if err != nil {
			return b, err
		}
		b = append(append(b, `,"error":`...), problem...)
	}
	return append(b, '}'), nil
}

// appendField appends a field unless its text is empty.
func appendField(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return appendText(append(b, name...), text)
}

// ParseClient parses a frame of a client. If the type or a field is unknown, it returns an answer
// with CodeBadFrame.
func ParseClient(data []byte) (Frame, *ErrorFrame) {
	if event, ok := scanEvent(data); ok {
		return event, nil
	}
	frame, problem := parse(data, newClientFrame, true)
	if problem != nil {
		return nil, Refuse(data, problem)
	}
	return frame, nil
}

// ParseServer parses a frame of a server. It ignores unknown fields.
func ParseServer(data []byte) (Frame, *Error) {
	return parse(data, newServerFrame, false)
}

func newClientFrame(name string) Frame {
	switch name {
	case "connect":
		return new(Connect)
	case "event":
		return new(Submission)
	case "cancel":
		return new(Cancel)
	case "ack":
		return new(Ack)
	case "pong":
		return new(Pong)
	case "refresh":
		return new(Refresh)
	}
	return nil
}

func newServerFrame(name string) Frame {
	switch name {
	case "connected":
		return new(Connected)
	case "accepted":
		return new(Accepted)
	case "result":
		return new(ResultFrame)
	case "error":
		return new(ErrorFrame)
	case "backpressure":
		return new(Backpressure)
	case "ping":
		return new(Ping)
	case "refreshed":
		return new(Refreshed)
	case "gap":
		return new(Gap)
	case "disconnect":
		return new(Disconnect)
	}
	return nil
}

func parse(data []byte, newFrame func(name string) Frame, strict bool) (Frame, *Error) {
	name, err := typeOf(data)
	if err != nil {
		return nil, badFrame("no JSON object with a type: %s", explain(err))
	}
	if name == "" {
		return nil, badFrame("its type is missing: write a frame type of %s, as in {\"type\":\"event\",...}", Protocol)
	}
	frame := newFrame(name)
	if frame == nil {
		return nil, badFrame("type %.40q is not one of %s", name, Protocol)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if strict {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(frame); err != nil {
		return nil, badFrame("frame %s: %s", name, explain(err))
	}
	if rest := bytes.TrimLeft(data[dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return nil, badFrame("frame %s: %.40q after top-level value", name, rest)
	}
	return frame, nil
}

// typeOf returns the type of a frame. If the type comes first, as clients write it, typeOf does not
// parse the rest.
func typeOf(data []byte) (string, error) {
	if rest, ok := bytes.CutPrefix(data, []byte(`{"type":"`)); ok {
		if end := bytes.IndexByte(rest, '"'); end >= 0 && bytes.IndexByte(rest[:end], '\\') < 0 {
			return string(rest[:end]), nil
		}
	}
	var named struct {
		Type string `json:"type"`
	}
	err := json.Unmarshal(data, &named)
	return named.Type, err
}

// Event returns the event, sent by the client that owns the token.
func (s *Submission) Event(tenant, client string) Event {
	return Event{
		Tenant: tenant, Client: client, ID: s.EventID, Sequence: s.Sequence, Causal: s.CausalID, Payload: s.Payload, Time: s.Timestamp,
		TraceParent: s.TraceParent, Correlation: s.CorrelationID, Priority: s.Priority,
	}
}

// FrameOf returns the frame of a result, with the cursor after it.
func FrameOf(r *Result, cursor string) Frame {
	if r.Status == StatusError {
		e := *r.Error
		e.EventID = r.Event
		return &ErrorFrame{Seq: r.Seq, Cursor: cursor, CorrelationID: r.Correlation, Error: &e}
	}
	return &ResultFrame{
		Seq: r.Seq, Cursor: cursor, EventID: r.Event, CausalID: r.Causal, Model: r.Model, Status: r.Status, Attempt: r.Attempt,
		Duplicate: r.Duplicate, Timestamp: r.Time, CorrelationID: r.Correlation, Payload: r.Payload, Error: r.Error,
	}
}
