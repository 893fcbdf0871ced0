package wire

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Types of the CloudEvents that CloudEvents.Encode writes: one for results, and one for each other
// frame, by its name.
const (
	TypeResult  = "afterbay.result.v1"
	typeOfFrame = "afterbay.%s.v1"
)

const specVersion = "1.0" // CloudEvents 1.0.2

// CloudEvent is a received event of CloudEvents 1.0.2.
type CloudEvent struct {
	// Attributes holds the context attributes by name, including extensions. Numbers and booleans
	// are in their JSON form.
	Attributes map[string]string
	// Payload is the event data as JSON, set by Data or by the JSON format.
	Payload json.RawMessage
}

// ParseCloudEvent parses an event in the JSON format.
func ParseCloudEvent(message []byte) (e CloudEvent, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(message, &members); err != nil {
		return e, fmt.Errorf("no CloudEvent in JSON: %w", err)
	}
	e.Attributes = map[string]string{}
	for name, value := range members {
		if name == "data" || name == "data_base64" || string(value) == "null" {
			continue
		}
		if e.Attributes[name], err = attribute(value); err != nil {
			return e, fmt.Errorf("attribute %.40s: %w", name, err)
		}
	}
	data, encoded := members["data"], members["data_base64"]
	switch {
	case encoded == nil || string(encoded) == "null":
		e.Payload = orNull(data)
	case data != nil:
		err = errors.New("it has data and data_base64: give one of them")
	default:
		var content []byte // encoding/json decodes base64 into bytes
		if err = json.Unmarshal(encoded, &content); err == nil {
			err = e.Data(content)
		} else {
			err = fmt.Errorf("data_base64: %w", err)
		}
	}
	return e, err
}

func orNull(data json.RawMessage) json.RawMessage {
	if len(data) == 0 {
		return json.RawMessage("null")
	}
	return data
}

// attribute returns the value of an attribute as text.
func attribute(value json.RawMessage) (text string, err error) {
	switch value[0] {
	case '"':
		err = json.Unmarshal(value, &text)
		return text, err
	case '{', '[':
		return "", errors.New("use a string, a number or a boolean")
	}
	return string(value), nil
}

// Data sets the payload from content, according to the attribute datacontenttype. JSON stays
// unchanged, other text becomes a JSON string, and everything else becomes {"base64": ...}.
func (e *CloudEvent) Data(content []byte) error {
	kind := e.Attributes["datacontenttype"]
	media, parameters, err := mime.ParseMediaType(cmp.Or(kind, "application/json"))
	charset := strings.ToLower(parameters["charset"])
	switch {
	case err != nil:
		return fmt.Errorf("datacontenttype %.80q: %w", kind, err)
	case len(content) == 0:
		e.Payload = json.RawMessage("null")
	case media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json"):
		if e.Payload = content; !json.Valid(content) {
			return errors.New("the data is not JSON, but its content type is JSON")
		}
	case strings.HasPrefix(media, "text/") && utf8.Valid(content) && (charset == "" || charset == "utf-8" || charset == "us-ascii"):
		e.Payload, err = json.Marshal(string(content))
	default:
		e.Payload = Base64(content)
	}
	return err
}

// Base64 returns the payload for bytes that are not JSON: {"base64": ...}.
func Base64(content []byte) json.RawMessage {
	return fmt.Appendf(nil, `{"base64":%q}`, base64.StdEncoding.EncodeToString(content))
}

// SourceOf returns the CloudEvents source of a client's events.
func SourceOf(tenant, client string) string { return "/tenants/" + tenant + "/clients/" + client }

// Event returns the event, sent by the client that owns the token. A source that names another
// client is an error. Any other source is the sender's choice and has no meaning here. The same is
// true of attributes without a field in Event.
func (e *CloudEvent) Event(tenant, client string) (event Event, err error) {
	a := e.Attributes
	event = Event{
		Tenant: tenant, Client: client, ID: a["id"], Causal: cmp.Or(a["causalid"], a["causationid"]), Payload: e.Payload,
		TraceParent: a["traceparent"], Correlation: a["correlationid"],
	}
	if a["specversion"] != specVersion {
		return event, fmt.Errorf("specversion %.40q: send CloudEvents %s", a["specversion"], specVersion)
	}
	for _, name := range [...]string{"id", "source", "type"} {
		if a[name] == "" {
			return event, fmt.Errorf("attribute %s is missing: CloudEvents need it", name)
		}
	}
	if own := SourceOf(tenant, client); strings.HasPrefix(a["source"], "/tenants/") && a["source"] != own {
		return event, fmt.Errorf("source %.160q is of another client than the token: use %s, or a source of your own", a["source"], own)
	}
	if text := a["sequence"]; text != "" {
		if event.Sequence, err = strconv.ParseInt(text, 10, 64); err != nil || event.Sequence < 1 {
			return event, fmt.Errorf("sequence %.40q: use a decimal number from 1, or leave it out", text)
		}
	}
	if text := a["priority"]; text != "" {
		if event.Priority, err = strconv.Atoi(text); err != nil {
			return event, fmt.Errorf("priority %.40q: use 0 to %d", text, PriorityMax)
		}
	}
	if text := a["time"]; text != "" {
		if event.Time, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return event, fmt.Errorf("time %.40q: use RFC 3339, or leave it out", text)
		}
	}
	return event, nil
}

// CloudEvents encodes the frames for a client as CloudEvents in the JSON format.
type CloudEvents struct{ Tenant, Client, Epoch string }

// outgoing is a CloudEvent that a gateway writes.
type outgoing struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject,omitempty"`
	Time            time.Time       `json:"time,omitzero"`
	Sequence        string          `json:"sequence,omitempty"`
	Status          Status          `json:"status,omitempty"`
	Cursor          string          `json:"cursor,omitempty"`
	CausalID        string          `json:"causalid,omitempty"`
	CausationID     string          `json:"causationid,omitempty"`
	CorrelationID   string          `json:"correlationid,omitempty"`
	Model           string          `json:"model,omitempty"`
	Attempt         int             `json:"attempt,omitempty"`
	Duplicate       bool            `json:"duplicate,omitempty"`
	DataContentType string          `json:"datacontenttype,omitempty"`
	Data            json.RawMessage `json:"data,omitempty"`
}

// Encode returns a frame as a CloudEvent. For a result, the id is epoch.seq and the data is the
// payload or the error. For any other frame, the id and time are the arguments, and the data is the
// frame.
func (c CloudEvents) Encode(f Frame, id string, now time.Time) ([]byte, error) {
	e := outgoing{SpecVersion: specVersion, Source: SourceOf(c.Tenant, c.Client) + "/results", CorrelationID: CorrelationOf(f)}
	var problem *Error
	switch f := f.(type) {
	case *ResultFrame:
		c.result(&e, f.Seq, f.EventID, f.Cursor)
		e.Time, e.Status, e.CausalID, e.Model, e.Attempt, e.Duplicate, e.Data = f.Timestamp, f.Status, f.CausalID, f.Model, f.Attempt, f.Duplicate, f.Payload
		problem = f.Error
	case *ErrorFrame:
		if f.Seq > 0 {
			c.result(&e, f.Seq, f.Error.EventID, f.Cursor)
			e.Time, e.Status, problem = now, StatusError, f.Error
		}
	}
	var err error
	if e.Type == "" {
		e.ID, e.Type, e.Time = id, fmt.Sprintf(typeOfFrame, f.Name()), now
		e.Data, err = Encode(f)
	} else if problem != nil {
		e.Data, err = json.Marshal(problem)
	}
	if len(e.Data) > 0 {
		e.DataContentType = "application/json"
	}
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(&e)
	if err != nil {
		return nil, fmt.Errorf("encode frame %s as a CloudEvent: %w", f.Name(), err)
	}
	return toUTF8(encoded), nil
}

func (c CloudEvents) result(e *outgoing, seq uint64, event, cursor string) {
	e.ID, e.Type, e.Subject, e.CausationID = c.Epoch+"."+strconv.FormatUint(seq, 10), TypeResult, event, event
	e.Sequence, e.Cursor = fmt.Sprintf("%020d", seq), cursor // sequences are compared as text
}
