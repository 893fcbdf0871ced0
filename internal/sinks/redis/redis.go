// Package redis writes records to Redis: a hash or a JSON text for each key, that
// of the newest event, however often and by however many sinks a record is written.
//
// Beside the fields of the records it has two that say which event it is of:
// afterbay_source, and afterbay_stamp, which is greater for a newer one.
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

// Options of a Sink. URL, Key and Fields are needed.
type Options struct {
	URL     string        // redis://host:port/0, rediss:// for an encrypted way; user and password may stand in it
	Prefix  string        // before each key, such as artifact:
	Key     string        // the name, of type string or int, that keys are made of
	Fields  []Field       // what of the records is written
	JSON    bool          // the value of a key is a JSON text instead of a hash
	TTL     time.Duration // after which a key goes that is not written again, at least 1 ms; 0 is never
	Deletes bool          // records without a value delete the key that theirs is
	Version *row.Version  // says which of two records of a key from different sources is newer; nil refuses the one that comes later
}

// Field is a name of the records and the field that takes it.
type Field struct {
	Name  string
	Field string
	Type  value.Type
}

const (
	sourceField = "afterbay_source"
	stampField  = "afterbay_stamp"
)

// Validate returns all that is wrong with the options, and why.
func (o Options) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, err := rueidis.ParseURL(o.URL); err != nil {
		fail("the URL is not as redis://host:port/0") // it may hold a password
	}
	at := func(name string) int {
		return slices.IndexFunc(o.Fields, func(f Field) bool { return f.Name == name })
	}
	for i, f := range o.Fields {
		switch {
		case f.Field == "" || f.Field == sourceField || f.Field == stampField:
			fail("%q is no name of a field, or one of the sink's own", f.Field)
		case slices.ContainsFunc(o.Fields[:i], func(other Field) bool { return other.Field == f.Field || other.Name == f.Name }):
			fail("two names go to the field %s, or one to two", f.Field)
		}
	}
	if i := at(o.Key); i < 0 || o.Fields[i].Type.Optional || o.Fields[i].Type.Kind != value.String && o.Fields[i].Type.Kind != value.Int {
		fail("key: %q is no name of type string or int that is always there", o.Key)
	}
	if o.TTL < 0 || o.TTL > 0 && o.TTL < time.Millisecond {
		fail("ttl is %v: use 1ms or more", o.TTL)
	}
	return errors.Join(errs...)
}

// Sink writes keys. It is safe for concurrent use. Make one with New.
type Sink struct {
	options Options
	client  rueidis.ClientOption
	reader  *row.Reader
	key     value.Slot
	script  *rueidis.Lua

	connecting chan struct{}  // holds a token while nobody connects
	connected  rueidis.Client // nil before; whoever has the token may set it
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
	client.DisableRetry = true // who delivers says when it is tried again
	client.AlwaysRESP2 = true  // serves as well, and older servers too
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

// Close ends the connections. Nothing is written after it.
func (s *Sink) Close() {
	if <-s.connecting; s.connected != nil {
		s.connected.Close()
	}
}

// Check says what of the server is not as the sink needs it. It writes nothing.
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

// connect returns the client, whose servers are looked for at its first use.
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

// Claim implements sink.Writer. What an earlier owner still writes is older, or
// the same.
func (s *Sink) Claim(ctx context.Context, _ stream.Partition, _ stream.Offset) (sink.Claim, error) {
	client, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	return &claim{Sink: s, client: client, row: s.reader.NewRows(1)[0]}, nil
}

// Scripts write a key unless the stored one is newer: 1, or 0; or is of another
// source: 2. KEYS has the key, and the mark of its deletion if there is one; ARGV the source, or
// nothing where stamps of different ones compare, the stamp, and milliseconds to live, 0 for ever;
// then what is written. Without that the key is deleted, and the mark keeps its source and stamp
// for a day. What has no stamp somebody else wrote, before.
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

// claim is a partition whose keys the sink writes.
type claim struct {
	*Sink
	client rueidis.Client
	row    value.Row
}

// Write implements sink.Claim: the records of a batch go one behind the other,
// without waiting for each answer.
func (c *claim) Write(ctx context.Context, _ stream.Offset, records []stream.Record) (sink.Outcome, error) {
	var o sink.Outcome
	var calls []rueidis.LuaExec
	var of []int // the records of the calls
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
			o.Refused = append(o.Refused, sink.Refusal{Index: of[n], Err: fmt.Errorf("key %q in Redis is from another source than %s, and says nothing of which is newer: give the sink a `version`, or see that all events of a key come by one partition", calls[n].Keys[0], source)})
		}
	}
	slices.SortFunc(o.Refused, func(a, b sink.Refusal) int { return a.Index - b.Index })
	return o, nil
}

// call is how the script is called for a record.
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

// keysOf returns a key, and the mark of its deletion if keys are deleted.
func (c *claim) keysOf(key string) []string {
	tag := key
	if _, rest, ok := strings.Cut(key, "{"); ok { // a cluster places keys by what stands in the first braces
		if inside, _, ok := strings.Cut(rest, "}"); ok && inside != "" {
			tag = inside
		}
	}
	if !c.options.Deletes || strings.Contains(tag, "}") {
		return []string{key} // no other key has the place of one with such a brace
	}
	return []string{key, "afterbay_deleted:{" + tag + "}" + key}
}

func stampOf(v sink.Version) string {
	return ordered(v.Generation) + ordered(v.Offset) + ordered(v.Record)
}

// ordered is a number whose texts are in the order of the numbers.
func ordered(v int64) string { return fmt.Sprintf("%016x", uint64(v)^1<<63) }

// versionOf is the version of a row, likewise.
func (c *claim) versionOf(row *value.Row) string {
	slot := c.reader.Slots[c.reader.Version]
	if slot.Type.Kind != value.Number {
		return ordered(row.Int(slot))
	}
	bits := int64(math.Float64bits(row.Number(slot) + 0)) // -0 is 0
	if bits < 0 {
		bits ^= math.MaxInt64
	}
	return ordered(bits)
}

// text is a value as a field of a hash: a vector as the float32 that it is of, the
// lowest byte first, as Redis searches them; a list as JSON.
func text(row *value.Row, slot value.Slot) string {
	switch slot.Type.Kind {
	case value.String, value.Bytes, value.Vector:
		return row.Text(slot)
	case value.Time:
		return strings.Trim(string(expression.AppendValue(nil, row, &slot)), `"`)
	}
	return string(expression.AppendValue(nil, row, &slot))
}

// json is a row as a JSON object.
func (c *claim) json(row *value.Row, source, stamp string) string {
	b := []byte{'{'}
	name := func(text string) {
		quoted, err := json.Marshal(text)
		if err != nil {
			panic(err) // a text is always JSON
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
