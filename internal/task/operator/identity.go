package operator

import (
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/stream"
)

// Identity is the part of the headers that an event keeps while it waits for others.
type Identity struct {
	ID     string
	Source string // topic/partition@offset that it was copied from; "" if it is not a copy
	Client Client
}

// Client holds the headers of a client: the values of clientKeys. The event made of the client's
// event gets them. The zero value belongs to an event without a client.
type Client [len(clientKeys)]string

var clientKeys = [...]string{header.ClientEvent, header.Correlation}

// IdentityOf returns the identity of an event with an id.
func IdentityOf(id string, r *stream.Record) Identity {
	i := Identity{ID: id, Source: header.SourceOf(r)}
	if i.Client[0] = header.Get(r, clientKeys[0]); i.Client.Sent() {
		i.Client[1] = header.Get(r, clientKeys[1])
	}
	return i
}

// Sent reports whether a client sent the event.
func (c *Client) Sent() bool { return c[0] != "" }

// AppendHeaders appends the headers of an event that is made of the client's event.
func (c *Client) AppendHeaders(dst []stream.Header) []stream.Header {
	for i, text := range c {
		if text != "" {
			dst = append(dst, stream.Header{Key: clientKeys[i], Value: []byte(text)})
		}
	}
	return dst
}

// Headers returns the headers of an event that is made of others.
func (i *Identity) Headers() []stream.Header {
	headers := []stream.Header{{Key: header.ID, Value: []byte(i.ID)}}
	if i.Source != "" {
		headers = append(headers, stream.Header{Key: header.Copied, Value: []byte(i.Source)})
	}
	return i.Client.AppendHeaders(headers)
}

// Append appends the stored form of an identity. It does not store whether a client sent the event:
// the caller does.
func (i *Identity) Append(dst []byte) []byte {
	dst = packed.AppendText(packed.AppendText(dst, i.ID), i.Source)
	if i.Client.Sent() {
		for _, text := range i.Client {
			dst = packed.AppendText(dst, text)
		}
	}
	return dst
}

// ReadIdentity reads the output of Append. sent says whether a client sent the event.
func ReadIdentity(r *packed.Reader, sent bool) Identity {
	i := Identity{ID: string(r.Text()), Source: string(r.Text())}
	for k := 0; sent && k < len(i.Client); k++ {
		i.Client[k] = string(r.Text())
	}
	return i
}
