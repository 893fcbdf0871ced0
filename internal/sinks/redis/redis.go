// Package redis writes records to Redis. Each key has a hash or a JSON text with the content of its
// newest event. This holds however often, and by however many sinks, a record is written.
//
// In addition to the fields of the records, a value has two fields that identify its event:
// afterbay_source, and afterbay_stamp, which is greater for a newer event.
package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/sinks/row"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// Options configures a Sink. URL, Key and Fields are required.
type Options struct {
	URL     string        // redis://host:port/0, or rediss:// with TLS; it may contain user and password
	Prefix  string        // prefix of each key, such as artifact:
	Key     string        // the name, of type string or int, that holds the key
	Fields  []Field       // the fields to write
	JSON    bool          // store a JSON text instead of a hash
	TTL     time.Duration // a key that is not written again for this long expires, at least 1 ms; 0 is never
	Deletes bool          // a record without a value deletes its key
	Version *row.Version  // decides which of two records of a key from different sources is newer; nil refuses the later one
}

// Field maps a name of the records to a field in Redis.
type Field struct {
	Name  string
	Field string
	Type  value.Type
}

const (
	sourceField = "afterbay_source"
	stampField  = "afterbay_stamp"
)

// Validate returns all errors in the options, joined.
func (o Options) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, err := rueidis.ParseURL(o.URL); err != nil {
		fail("the URL is not as redis://host:port/0") // the URL may contain a password
	}
	at := func(name string) int {
		return slices.IndexFunc(o.Fields, func(f Field) bool { return f.Name == name })
	}
	for i, f := range o.Fields {
		switch {
		case f.Field == "" || f.Field == sourceField || f.Field == stampField:
			fail("%q is not a name of a field, or one of the sink's own", f.Field)
		case slices.ContainsFunc(o.Fields[:i], func(other Field) bool { return other.Field == f.Field || other.Name == f.Name }):
			fail("two names go to the field %s, or one to two", f.Field)
		}
	}
	if i := at(o.Key); i < 0 || o.Fields[i].Type.Optional || o.Fields[i].Type.Kind != value.String && o.Fields[i].Type.Kind != value.Int {
		fail("key: %q is not a name of type string or int that is always there", o.Key)
	}
	if o.TTL < 0 || o.TTL > 0 && o.TTL < time.Millisecond {
		fail("ttl is %v: use 1ms or more", o.TTL)
	}
	return errors.Join(errs...)
}

// Sink writes keys. It is safe for concurrent use. Create one with New.
type Sink struct {
	options Options
	client  rueidis.ClientOption
	reader  *row.Reader
	key     value.Slot
	script  *rueidis.Lua

	connecting chan struct{}  // holds a token; take it to connect
	connected  rueidis.Client // nil before the first connection; only the holder of the token sets it
}

var _ sink.Writer = (*Sink)(nil)

// New returns a sink. It opens no connection.
func New(o Options) (*Sink, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	client, err := rueidis.ParseURL(o.URL)
	if err != nil {
		return nil, errors.New("the URL is not as redis://host:port/0")
	}
	client.DisableCache = true
	client.DisableRetry = true // the Deliverer decides when to retry
	client.AlwaysRESP2 = true  // sufficient, and works with older servers
	if client.Dialer.Timeout == 0 {
		client.Dialer.Timeout = time.Second
	}
	var fields []row.Field
	for _, f := range o.Fields {
		fields = append(fields, row.Field{Name: f.Name, Type: f.Type})
	}
	reader, err := row.NewReader(fields, o.Version)
	if err != nil {
		return nil, err
	}
	s := &Sink{options: o, client: client, reader: reader, script: rueidis.NewLuaScript(hashScript), connecting: make(chan struct{}, 1)}
	if o.JSON {
		s.script = rueidis.NewLuaScript(jsonScript)
	}
	s.key = reader.Slots[slices.IndexFunc(o.Fields, func(f Field) bool { return f.Name == o.Key })]
	s.connecting <- struct{}{}
	return s, nil
}

// Close closes the connections. The sink must not be used after it.
func (s *Sink) Close() {
	if <-s.connecting; s.connected != nil {
		s.connected.Close()
	}
}

// Check returns an error if the server cannot be used. It writes nothing.
func (s *Sink) Check(ctx context.Context) []error {
	client, err := s.connect(ctx)
	if err == nil {
		err = client.Do(ctx, client.B().Ping().Build()).Error()
	}
	if err != nil {
		return []error{fmt.Errorf("ask Redis: %w", err)}
	}
	return nil
}

// connect returns the client. The first call connects to the servers.
func (s *Sink) connect(ctx context.Context) (rueidis.Client, error) {
	select {
	case <-s.connecting:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { s.connecting <- struct{}{} }()
	if s.connected != nil {
		return s.connected, nil
	}
	client, err := rueidis.NewClient(s.client)
	if err != nil {
		return nil, fmt.Errorf("connect to Redis: %w", err)
	}
	s.connected = client
	return client, nil
}

// Claim implements sink.Writer. It need not fence an earlier owner: that one writes only versions
// that are older or equal.
func (s *Sink) Claim(ctx context.Context, _ stream.Partition, _ stream.Offset) (sink.Claim, error) {
	client, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	return &claim{Sink: s, client: client, row: s.reader.NewRows(1)[0]}, nil
}

// The scripts write a key and return 1. They return 0 if the stored version is not older, and 2 if
// it is from another source.
//
// KEYS holds the key and, if keys are deleted, the key of its deletion marker. ARGV holds the
// source, or "" if stamps of different sources can be compared; the stamp; the time to live in
// milliseconds, 0 for no expiry; and the content. Without content the script deletes the key, and
// the marker keeps the source and stamp for a day. A stored value without a stamp was not written
// by a sink and counts as older.
const (
	markScript = `
if KEYS[2] then
	local gone = redis.call('HMGET', KEYS[2], 'afterbay_source', 'afterbay_stamp')
	if gone[2] then
		if gone[1] ~= ARGV[1] then return 2 end
		if gone[2] >= ARGV[2] then return 0 end
	end
	redis.call('DEL', KEYS[2])
end
if #ARGV == 3 then
	redis.call('DEL', KEYS[1])
	if KEYS[2] then
		redis.call('HSET', KEYS[2], 'afterbay_source', ARGV[1], 'afterbay_stamp', ARGV[2])
		redis.call('PEXPIRE', KEYS[2], 86400000)
	end
	return 1
end
`
	hashScript = `local old = redis.call('HMGET', KEYS[1], 'afterbay_source', 'afterbay_stamp')
if old[2] then
	if ARGV[1] ~= '' and old[1] ~= ARGV[1] then return 2 end
	if old[2] >= ARGV[2] then return 0 end
end` + markScript + `redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], unpack(ARGV, 4))
if ARGV[3] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return 1`
	jsonScript = `local old = redis.call('GET', KEYS[1])
if old then
	local ok, row = pcall(cjson.decode, old)
	if ok and type(row) == 'table' and row.afterbay_stamp then
		if ARGV[1] ~= '' and row.afterbay_source ~= ARGV[1] then return 2 end
		if row.afterbay_stamp >= ARGV[2] then return 0 end
	end
end` + markScript + `if ARGV[3] ~= '0' then redis.call('SET', KEYS[1], ARGV[4], 'PX', ARGV[3]) else redis.call('SET', KEYS[1], ARGV[4]) end
return 1`
)

// claim is a claimed partition of the sink's topic.
type claim struct {
	*Sink
	client rueidis.Client
	row    value.Row
}

// Write implements sink.Claim. It pipelines the records of a batch.
func (c *claim) Write(ctx context.Context, _ stream.Offset, records []stream.Record) (sink.Outcome, error) {
	var o sink.Outcome
	var calls []rueidis.LuaExec
	var of []int // index of the record of each call
	for i := range records {
		call, err := c.call(&records[i])
		if err != nil {
			o.Refused = append(o.Refused, sink.Refusal{Index: i, Err: err})
			continue
		}
		calls, of = append(calls, call), append(of, i)
	}
	if len(calls) == 0 {
		return o, nil
	}
	for n, result := range c.script.ExecMulti(ctx, c.client, calls...) {
		done, err := result.AsInt64()
		var said *rueidis.RedisError
		switch {
		case errors.As(err, &said) && strings.HasPrefix(said.Error(), "WRONGTYPE"):
			o.Refused = append(o.Refused, sink.Refusal{Index: of[n], Err: fmt.Errorf("key %q in Redis holds something that the sink did not write: %w", calls[n].Keys[0], err)})
		case err != nil:
			return sink.Outcome{}, fmt.Errorf("ask Redis: %w", err)
		case done == 0:
			o.Older++
		case done == 2:
			o.Foreign++
			source := sink.VersionOf(&records[of[n]]).Source
			o.Refused = append(o.Refused, sink.Refusal{Index: of[n], Err: fmt.Errorf("key %q in Redis is from another source than %s, and their order is unknown: give the sink a `version`, or send all events of a key through one partition", calls[n].Keys[0], source)})
		}
	}
	slices.SortFunc(o.Refused, func(a, b sink.Refusal) int { return a.Index - b.Index })
	return o, nil
}

// call returns the arguments of the script for a record.
func (c *claim) call(r *stream.Record) (rueidis.LuaExec, error) {
	row := &c.row
	v := sink.VersionOf(r)
	if r.Value == nil && c.options.Deletes {
		keys := c.keysOf(c.options.Prefix + string(r.Key))
		return rueidis.LuaExec{Keys: keys, Args: []string{v.Source, stampOf(v), "0"}}, nil
	}
	if err := c.reader.Read(r.Value, row); err != nil {
		return rueidis.LuaExec{}, err
	}
	keys := c.keysOf(string(row.AppendKey([]byte(c.options.Prefix), c.key)))
	ttl := strconv.FormatInt(c.options.TTL.Milliseconds(), 10)
	stamp := stampOf(v)
	args := []string{v.Source, stamp, ttl}
	if c.options.Version != nil {
		stamp = c.versionOf(row) + ordered(v.Generation) + v.Source + " " + ordered(v.Offset) + ordered(v.Record)
		args[0], args[1] = "", stamp
	}
	if c.options.JSON {
		return rueidis.LuaExec{Keys: keys, Args: append(args, c.json(row, v.Source, stamp))}, nil
	}
	for i, f := range c.options.Fields {
		if slot := c.reader.Slots[i]; row.Has(slot) {
			args = append(args, f.Field, text(row, slot))
		}
	}
	return rueidis.LuaExec{Keys: keys, Args: append(args, sourceField, v.Source, stampField, stamp)}, nil
}

// keysOf returns a key and, if keys are deleted, the key of its deletion marker.
func (c *claim) keysOf(key string) []string {
	tag := key
	if _, rest, ok := strings.Cut(key, "{"); ok { // a cluster places a key by the text in its first braces
		if inside, _, ok := strings.Cut(rest, "}"); ok && inside != "" {
			tag = inside
		}
	}
	if !c.options.Deletes || strings.Contains(tag, "}") {
		return []string{key} // with such a brace, no other key can share the slot
	}
	return []string{key, "afterbay_deleted:{" + tag + "}" + key}
}

func stampOf(v sink.Version) string {
	return ordered(v.Generation) + ordered(v.Offset) + ordered(v.Record)
}

// ordered returns a text for v that sorts like the number.
func ordered(v int64) string { return fmt.Sprintf("%016x", uint64(v)^1<<63) }

// versionOf returns the version of a row as a text that sorts like the version.
func (c *claim) versionOf(row *value.Row) string {
	slot := c.reader.Slots[c.reader.Version]
	if slot.Type.Kind != value.Number {
		return ordered(row.Int(slot))
	}
	bits := int64(math.Float64bits(row.Number(slot) + 0)) // turns -0 into 0
	if bits < 0 {
		bits ^= math.MaxInt64
	}
	return ordered(bits)
}

// text returns a value as a hash field. A vector becomes little-endian float32, the format of Redis
// search. A list becomes JSON.
func text(row *value.Row, slot value.Slot) string {
	switch slot.Type.Kind {
	case value.String, value.Bytes, value.Vector:
		return row.Text(slot)
	case value.Time:
		return strings.Trim(string(expression.AppendValue(nil, row, &slot)), `"`)
	}
	return string(expression.AppendValue(nil, row, &slot))
}

// json returns a row as a JSON object.
func (c *claim) json(row *value.Row, source, stamp string) string {
	b := []byte{'{'}
	name := func(text string) {
		quoted, err := json.Marshal(text)
		if err != nil {
			panic(err) // a string can always be encoded
		}
		b = append(append(b, quoted...), ':')
	}
	for i, f := range c.options.Fields {
		name(f.Field)
		b = append(expression.AppendValue(b, row, &c.reader.Slots[i]), ',')
	}
	for _, own := range [][2]string{{sourceField, source}, {stampField, stamp}} {
		name(own[0])
		quoted, err := json.Marshal(own[1])
		if err != nil {
			panic(err)
		}
		b = append(append(b, quoted...), ',')
	}
	b[len(b)-1] = '}'
	return string(b)
}
