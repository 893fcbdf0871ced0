package gateway

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// Media types of CloudEvents: one event, and a batch.
const (
	cloudEvent  = "application/cloudevents+json"
	cloudEvents = "application/cloudevents-batch+json"
)

// asksForCloudEvents reports whether a request accepts results as CloudEvents.
func asksForCloudEvents(r *http.Request) bool {
	for _, accepted := range r.Header.Values("Accept") {
		for _, item := range split(accepted) {
			if media, _, err := mime.ParseMediaType(item); err == nil && (media == cloudEvent || media == cloudEvents) {
				return true
			}
		}
	}
	return false
}

// hasCloudEvents reports whether the body of a request is CloudEvents: by its media type or, in
// binary mode, by its headers.
func hasCloudEvents(r *http.Request) bool {
	return strings.HasPrefix(mediaOf(r), "application/cloudevents") || r.Header.Get("ce-specversion") != "" || r.Header.Get("ce-id") != ""
}

func mediaOf(r *http.Request) string {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return media
}

// readCloudEvents reads the CloudEvents of a request: one event or a batch in structured mode, one
// event in binary mode. An invalid event gets an error as its answer.
func (b *submissions) readCloudEvents(r *http.Request, body io.Reader) error {
	most := b.gateway.options.MessageBytes
	media := mediaOf(r)
	if media != cloudEvents {
		body = io.LimitReader(body, int64(most)+1)
	}
	data, err := b.room.ReadAll(body, bodyBytes)
	if err == nil && media == cloudEvents {
		err = b.room.Take(int64(len(data))) // for the copy; charge below adds each event
	} else if err == nil {
		err = b.charge(len(data))
	}
	switch {
	case err != nil:
		return err
	case media == cloudEvents:
		var batch [eventsMost + 1]json.RawMessage // Unmarshal drops the elements after these
		var other *json.UnmarshalTypeError
		if err := json.Unmarshal(data, &batch); errors.As(err, &other) {
			return &refusal{http.StatusBadRequest, "the batch is not a JSON array: found " + other.Value, "send [{...}, ...]"}
		} else if err != nil {
			return &refusal{http.StatusBadRequest, fmt.Sprintf("the batch is not a JSON array: %.200v", err), "send [{...}, ...]"}
		}
		if batch[eventsMost] != nil {
			return errTooMany
		}
		for _, message := range batch {
			if message == nil {
				break
			}
			if len(message) > most {
				return tooLarge(fmt.Sprintf("an event of %d bytes", len(message)))
			}
			if err := b.charge(len(message)); err != nil {
				return err
			}
			e, err := wire.ParseCloudEvent(message)
			b.takeCloudEvent(&e, err)
		}
	case len(data) > most:
		return tooLarge(fmt.Sprintf("an event of more than %d bytes", most))
	case media == cloudEvent:
		e, err := wire.ParseCloudEvent(data)
		b.takeCloudEvent(&e, err)
	case strings.HasPrefix(media, "application/cloudevents"):
		return &refusal{http.StatusUnsupportedMediaType, fmt.Sprintf("%.80s is not taken", media), "send " + cloudEvent + ", " + cloudEvents + ", or the binary mode"}
	default:
		e := wire.CloudEvent{Attributes: attributesOf(r.Header)}
		b.takeCloudEvent(&e, e.Data(data))
	}
	return nil
}

// attributesOf returns the CloudEvents attributes in the headers of a binary mode request.
func attributesOf(headers http.Header) map[string]string {
	attributes := map[string]string{}
	for name, values := range headers {
		if attribute, ok := strings.CutPrefix(strings.ToLower(name), "ce-"); ok {
			attributes[attribute] = values[0]
			if text, err := url.PathUnescape(values[0]); err == nil { // the HTTP binding percent-encodes non-ASCII text
				attributes[attribute] = text
			}
		}
	}
	attributes["datacontenttype"] = headers.Get("Content-Type")
	return attributes
}

func (b *submissions) takeCloudEvent(e *wire.CloudEvent, err error) {
	var event wire.Event
	if err == nil {
		event, err = e.Event(b.who.Tenant, b.who.Client)
	}
	if err != nil {
		b.refuse(badEvent(e.Attributes["id"], e.Attributes["correlationid"], err))
		return
	}
	b.take(&event)
}

// status returns an HTTP status for senders that look only at the status: 202 if all events were
// accepted, otherwise the status of the first event that was not.
func (b *submissions) status() int {
	for _, answer := range b.answers {
		switch f := answer.(type) {
		case *wire.Backpressure:
			return http.StatusTooManyRequests
		case *wire.ErrorFrame:
			if f.Error.Retryable {
				return http.StatusServiceUnavailable
			}
			return http.StatusBadRequest
		}
	}
	return http.StatusAccepted
}

// retryAfter returns the value of Retry-After in seconds: the time after which all events may be
// sent again.
func (b *submissions) retryAfter() string {
	var most int64 = 1
	for _, answer := range b.answers {
		if f, ok := answer.(*wire.Backpressure); ok {
			most = max(most, (f.RetryAfterMs+999)/1000)
		}
	}
	return strconv.FormatInt(most, 10)
}

// encoder returns the encoding of the frames that the client receives: plain frames or CloudEvents.
func (l *listening) encoder() func(wire.Frame) ([]byte, error) {
	if !l.cloud {
		return wire.Encode
	}
	c := wire.CloudEvents{Tenant: l.who.Tenant, Client: l.who.Client, Epoch: strconv.FormatUint(l.gateway.options.Epoch, 10)}
	return func(f wire.Frame) ([]byte, error) { return c.Encode(f, rand.Text(), time.Now().UTC()) }
}

// batch writes frames into the buffer as one JSON array of CloudEvents.
func (o *writer) batch(frames []wire.Frame) {
	before := byte('[')
	for _, frame := range frames {
		if message, err := o.encode(frame); err == nil {
			o.buffer.WriteByte(before)
			o.buffer.Write(message)
			before = ','
		}
	}
	if before == '[' {
		o.buffer.WriteByte('[')
	}
	o.buffer.WriteString("]\n")
}
