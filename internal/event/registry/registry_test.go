package registry

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/test/slots"
)

// open returns a registry of a server.
func open(t testing.TB, o Options) *Registry {
	t.Helper()
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.backoff = control.Backoff{Base: time.Millisecond, Max: time.Millisecond}
	t.Cleanup(r.Close)
	return r
}

// reading reads records of a registry, as a task does.
type reading struct {
	*Decoder
	names *value.Schema
	row   *value.Row
	turn  uint64
	woken chan struct{}
}

// read returns a reading of fields `name type`.
func read(t testing.TB, r *Registry, fields ...string) *reading {
	t.Helper()
	list, names := slots.Of(t, fields...)
	d, err := r.Decoder(list)
	if err != nil {
		t.Fatal(err)
	}
	return &reading{Decoder: d.(*Decoder), names: names, row: &names.NewRows(1)[0], woken: make(chan struct{}, 1)}
}

func (r *reading) wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// show waits for what a record needs, and shows its fields or the error.
func (r *reading) show(t testing.TB, record []byte) string {
	t.Helper()
	for {
		r.turn++
		if ready, _ := r.Prepare(record, r.turn, r.wake); ready {
			break
		}
		select {
		case <-r.woken:
		case <-t.Context().Done():
			t.Fatal("the record is not ready")
		}
	}
	if err := r.Scan(record, r.row); err != nil {
		return err.Error()
	}
	var all []string
	for _, slot := range r.names.Slots {
		all = append(all, slots.Show(r.row, slot))
	}
	return strings.Join(all, " ")
}

// prefixed returns a record with the id of its schema, and the index of a message if there is one.
func prefixed(id int, record []byte, index ...int64) []byte {
	b := binary.BigEndian.AppendUint32([]byte{0}, uint32(id))
	for _, n := range index {
		b = binary.AppendVarint(b, n)
	}
	return append(b, record...)
}

// register registers a schema, and returns its id.
func register(t testing.TB, server *srfake.Registry, subject string, of sr.SchemaType, schema string, uses ...sr.SchemaReference) int {
	t.Helper()
	id, _, err := server.RegisterSchema(subject, sr.Schema{Schema: schema, Type: of, References: uses})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

const cents = `{"type":"record","name":"Event","fields":[{"name":"cents","type":"long"}]}`

func TestSchemasSayTheFormat(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	r := read(t, open(t, Options{URL: server.URL() + "/"}), "cents int")
	avro := register(t, server, "a", sr.TypeAvro, cents)
	proto := register(t, server, "b", sr.TypeProtobuf, `syntax = "proto3"; message A { string cents = 1; } message B { message C { int64 cents = 2; } int64 cents = 1; }`)
	plain := register(t, server, "c", sr.TypeJSON, `{"type":"object"}`)
	for _, c := range []struct {
		record []byte
		want   string
	}{
		{prefixed(avro, []byte{3}), "-2"},
		{prefixed(plain, []byte(`{"cents":5}`)), "5"},
		{prefixed(proto, []byte{8, 5}, 1, 1), "5"},     // the second message
		{prefixed(proto, []byte{16, 6}, 2, 1, 0), "6"}, // the first message in the second
		{prefixed(proto, nil, 0), `schema id 2 does not fit: field "cents" is of type string in the schema: want int`},
		{prefixed(proto, nil, 1, 0), `schema id 2 does not fit: field "cents" is of type string`},
		{prefixed(proto, nil, 1, 2), "schema id 2 does not fit: the schema has no message at the index [2]"},
		{prefixed(proto, nil, 3, 1), "byte 5: the index of the message type is not valid"},
		{prefixed(proto, nil, -1), "byte 5: the index of the message type has -1 numbers"},
		{prefixed(proto, nil, 17), "byte 5: the index of the message type has 17 numbers"},
		{prefixed(avro, nil), `field "cents" at byte 5: the record ends too early`},
		{prefixed(plain, []byte(`{"cents":true}`)), `field "cents" at byte 14: `},
		{prefixed(proto, []byte{8}, 1, 1), "at byte 8: "},
		{prefixed(99, nil), "byte 1: schema id 99: the registry does not know it"},
		{prefixed(-1, nil), "byte 0: schema id 4294967295 is not valid: ids are at most 2147483647"},
		{[]byte(`{"cents":5}`), "byte 0: the record does not begin with the id of a schema"},
		{[]byte{0, 0, 0, 0}, "byte 0: the record does not begin with the id of a schema"},
		{nil, "byte 0: the record does not begin with the id of a schema"},
	} {
		if got := r.show(t, c.record); got != c.want && (len(c.want) < 3 || !strings.Contains(got, c.want)) {
			t.Errorf("%x: %s, want %s", c.record, got, c.want)
		}
	}
}

func TestSchemasUseOthers(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	r := read(t, open(t, Options{URL: server.URL()}), "cents int")
	ref := func(name, subject string) sr.SchemaReference {
		return sr.SchemaReference{Name: name, Subject: subject, Version: 1}
	}
	register(t, server, "unit", sr.TypeAvro, `{"type":"enum","name":"Unit","symbols":["EUR"]}`)
	register(t, server, "money", sr.TypeAvro, `{"type":"record","name":"Money","fields":[{"name":"unit","type":"Unit"}]}`, ref("Unit", "unit"))
	avro := register(t, server, "event", sr.TypeAvro, `{"type":"record","name":"Event","fields":[{"name":"price","type":"Money"},{"name":"cents","type":"long"}]}`, ref("Money", "money"), ref("Unit", "unit"))
	if got := r.show(t, prefixed(avro, []byte{0, 14})); got != "7" {
		t.Error(got)
	}
	register(t, server, "money.proto", sr.TypeProtobuf, `syntax = "proto3"; message Money { int64 units = 1; }`)
	proto := register(t, server, "event.proto", sr.TypeProtobuf, `syntax = "proto3"; import "shop/money.proto"; import "google/protobuf/timestamp.proto"; message Event { Money price = 1; int64 cents = 2; google.protobuf.Timestamp at = 3; }`, ref("shop/money.proto", "money.proto"))
	if got := r.show(t, prefixed(proto, []byte{16, 7}, 0)); got != "7" {
		t.Error(got)
	}
	lost := register(t, server, "lost", sr.TypeProtobuf, `syntax = "proto3"; import "nowhere.proto"; message Event { int64 cents = 2; }`)
	if got := r.show(t, prefixed(lost, nil, 0)); !strings.Contains(got, "nowhere.proto is not one of its references") {
		t.Error(got)
	}
	server.Intercept(func(w http.ResponseWriter, request *http.Request) bool {
		if request.URL.Path == "/subjects/unit/versions/1" {
			http.Error(w, `{"error_code":40402}`, http.StatusNotFound)
		}
		return request.URL.Path == "/subjects/unit/versions/1"
	})
	gone := register(t, server, "gone", sr.TypeAvro, `{"type":"record","name":"Gone","fields":[{"name":"unit","type":"Unit"}]}`, ref("Unit", "unit"))
	if got := r.show(t, prefixed(gone, nil)); !strings.Contains(got, "it uses version 1 of unit, which the registry does not know") {
		t.Error(got)
	}
}

// TestRegistryIsWaitedFor has requests fail as they do while a registry is away. No record is given up.
func TestRegistryIsWaitedFor(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
	}{{500, ""}, {503, `{"error_code":50003,"message":"leader"}`}, {429, ""}, {401, ""}, {403, ""}, {302, ""}, {404, "no such page"}, {404, `{"error_code":404}`}, {400, `{"error_code":400}`}, {200, "<html>"}, {0, ""}} {
		server := srfake.New()
		id := register(t, server, "a", sr.TypeAvro, cents)
		var away atomic.Bool
		away.Store(true)
		server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			switch {
			case !away.Load():
				return false
			case c.status == 0:
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
			return true
		})
		all := open(t, Options{URL: server.URL()})
		r := read(t, all, "cents int")
		record := prefixed(id, []byte{4})
		for all.Stats().Faults < 3 {
			r.turn++
			if ready, _ := r.Prepare(record, r.turn, r.wake); ready {
				t.Fatalf("%d %s: the record is ready", c.status, c.body)
			}
			time.Sleep(time.Millisecond)
		}
		<-r.woken // after the first failure
		if ready, why := r.Prepare(record, r.turn, r.wake); ready || why == nil {
			t.Errorf("%d %s: ready %v, why %v", c.status, c.body, ready, why)
		}
		if s := all.Stats(); s.Waiting != 1 || s.Kept != 0 || s.Away == "" || s.Lookups != 0 {
			t.Errorf("%d %s: %+v", c.status, c.body, s)
		}
		away.Store(false)
		if got := r.show(t, record); got != "2" {
			t.Errorf("%d %s: %s", c.status, c.body, got)
		}
		if s := all.Stats(); s.Waiting != 0 || s.Kept != 1 || s.Away != "" || s.Lookups != 1 || s.Unknown != 0 {
			t.Errorf("%d %s: at the end %+v", c.status, c.body, s)
		}
		server.Close()
	}
}

// TestAttemptThatSucceedsAgainIsNoStall says that the registry stays away after a while alone, not at the first failure.
func TestAttemptThatSucceedsAgainIsNoStall(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	id := register(t, server, "a", sr.TypeAvro, cents)
	var away atomic.Bool
	away.Store(true)
	server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		if away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return away.Load()
	})
	var passed atomic.Int64
	begun := time.Now()
	all := open(t, Options{URL: server.URL(), Now: func() time.Time { return begun.Add(time.Duration(passed.Load())) }})
	r := read(t, all, "cents int")
	record := prefixed(id, []byte{4})
	if ready, _ := r.Prepare(record, 1, r.wake); ready {
		t.Fatal("the record is ready")
	}
	<-r.woken // after the first failure
	for _, c := range []struct {
		passed  time.Duration
		stalled bool
	}{{0, false}, {stalledAfter - 1, false}, {stalledAfter, true}} {
		passed.Store(int64(c.passed))
		for before := all.Stats().Faults; all.Stats().Faults < before+2; {
			time.Sleep(time.Millisecond)
		}
		if s := all.Stats(); s.Stalled != c.stalled || s.Away == "" {
			t.Errorf("after %v: %+v", c.passed, s)
		}
	}
	away.Store(false)
	if got := r.show(t, record); got != "2" || all.Stats().Stalled {
		t.Errorf("at the end %s, %+v", got, all.Stats())
	}
}

// TestClosingDoesNotWaitForTheRegistry closes while a request is under way.
func TestClosingDoesNotWaitForTheRegistry(t *testing.T) {
	asked := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		close(asked)
		<-request.Context().Done()
	}))
	defer server.Close()
	all := open(t, Options{URL: server.URL})
	r := read(t, all, "cents int")
	if ready, _ := r.Prepare(prefixed(1, nil), 1, r.wake); ready {
		t.Fatal("the record is ready")
	}
	<-asked
	all.Close()
}

// TestUnknownIDsAreAskedForAgain registers a schema after its first record.
func TestUnknownIDsAreAskedForAgain(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	var passed atomic.Int64
	begun := time.Now()
	all := open(t, Options{URL: server.URL(), Now: func() time.Time { return begun.Add(time.Duration(passed.Load())) }})
	r := read(t, all, "cents int")
	record := prefixed(1, []byte{4})
	if got := r.show(t, record); !strings.Contains(got, "does not know") {
		t.Fatal(got)
	}
	register(t, server, "a", sr.TypeAvro, cents)
	passed.Store(int64(unknownFor - 1))
	if got := r.show(t, record); !strings.Contains(got, "does not know") {
		t.Error(got)
	}
	if s := all.Stats(); s.Lookups != 1 || s.Unknown != 1 {
		t.Errorf("%+v", s)
	}
	passed.Store(int64(unknownFor))
	if got := r.show(t, record); got != "2" {
		t.Error(got)
	}
}

func TestWhatIsAskedHasBounds(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	r := read(t, open(t, Options{URL: server.URL()}), "cents int")
	large := register(t, server, "large", sr.TypeAvro, `{"type":"record","name":"Event","doc":"`+strings.Repeat("x", 1<<20)+`","fields":[]}`)
	if got := r.show(t, prefixed(large, nil)); !strings.Contains(got, "has 1048629 bytes: at most 1048576") {
		t.Error(got)
	}
	deep := register(t, server, "deep", sr.TypeAvro, strings.Repeat(`{"type":"array","items":`, 70)+`"int"`+strings.Repeat("}", 70))
	if got := r.show(t, prefixed(deep, nil)); !strings.Contains(got, "64") {
		t.Error(got)
	}
	flood := register(t, server, "flood", sr.TypeAvro, cents[:len(cents)-1]+`,"doc":"flood"}`)
	server.Intercept(func(w http.ResponseWriter, request *http.Request) bool {
		if request.URL.Path != fmt.Sprintf("/schemas/ids/%d", flood) {
			return false
		}
		for range 5 << 10 {
			w.Write(make([]byte, 1<<10))
		}
		return true
	})
	if got := r.show(t, prefixed(flood, nil)); !strings.Contains(got, "the answer of the registry has more than 4194304 bytes") {
		t.Error(got)
	}
	many := register(t, server, "many", sr.TypeAvro, cents[:len(cents)-1]+`,"doc":"many"}`, sr.SchemaReference{Name: "E", Subject: "large", Version: 1})
	server.Intercept(func(w http.ResponseWriter, request *http.Request) bool { // each uses another one
		if !strings.HasPrefix(request.URL.Path, "/subjects/") {
			return false
		}
		n, _ := strconv.Atoi(request.URL.Path[strings.LastIndexByte(request.URL.Path, '/')+1:])
		fmt.Fprintf(w, `{"schema":"{\"type\":\"enum\",\"name\":\"E%d\",\"symbols\":[\"A\"]}","references":[{"name":"E%d","subject":"e","version":%d}]}`, n, n, n+1)
		return true
	})
	if got := r.show(t, prefixed(many, nil)); !strings.Contains(got, "it uses more than 256 other schemas") {
		t.Error(got)
	}
}

// TestProgramsHaveABound reads records of more schemas than are kept. In one turn none is removed that
// the turn needs.
func TestProgramsHaveABound(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(sr.Schema{Schema: cents})
	}))
	defer server.Close()
	all := open(t, Options{URL: server.URL})
	r := read(t, all, "cents int")
	var records [][]byte
	for i := range answersMax + 50 {
		records = append(records, prefixed(i, []byte{4}))
		if got := r.show(t, records[i]); got != "2" {
			t.Fatal(got)
		}
	}
	if s := all.Stats(); len(r.programs) != programsMax || s.Kept != answersMax || s.Evicted != 50 {
		t.Errorf("%d programs, %+v", len(r.programs), s)
	}
	r.turn++
	ready := 0
	for _, record := range records[answersMax+50-programsMax-10:] {
		if ok, _ := r.Prepare(record, r.turn, r.wake); ok {
			ready++
		}
	}
	if ready != programsMax {
		t.Errorf("%d records are ready in a turn, want %d", ready, programsMax)
	}
	if _, known := r.programs[typeOf{id: int(binary.BigEndian.Uint32(records[answersMax+50-programsMax-10][1:]))}]; !known {
		t.Error("a program that the turn needs is removed")
	}
	<-r.woken // there is room in the next turn
	r = read(t, all, "cents int")
	for _, record := range records[50:] { // which are known
		if ok, _ := r.Prepare(record, decode.EveryTurn, r.wake); !ok {
			t.Fatal("a record of a turn that never ends is not ready")
		}
	}
	for _, record := range records[50:] {
		if err := r.Scan(record, r.row); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCredentialsAreSent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("t2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]Options{
		"Basic dTpw": {User: "u", Password: "p"}, "Bearer t1": {Token: "t1"}, "Bearer t2": {TokenFile: file},
	} {
		server := srfake.New(srfake.WithAuth(want))
		o.URL = server.URL()
		id := register(t, server, "a", sr.TypeAvro, cents)
		if got := read(t, open(t, o), "cents int").show(t, prefixed(id, []byte{4})); got != "2" {
			t.Errorf("%s: %s", want, got)
		}
		server.Close()
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		of   Options
		want string
	}{
		{Options{URL: "https://schemas.example.com/path"}, ""},
		{Options{URL: "http://schemas.example.com"}, ""},
		{Options{URL: "http://localhost:8081", Token: "t"}, ""},
		{Options{URL: "schemas.example.com:8081"}, "use https://HOST:PORT"},
		{Options{URL: "ftp://schemas"}, "use https://HOST:PORT"},
		{Options{URL: "https://u:p@schemas"}, "no place in the URL"},
		{Options{URL: "https://schemas?a=b"}, "has a query"},
		{Options{URL: "https://schemas", User: "u"}, "go together"},
		{Options{URL: "https://schemas", User: "u", Password: "p", Token: "t"}, "several credentials"},
		{Options{URL: "https://schemas", TokenFile: "f", Token: "t"}, "several credentials"},
		{Options{URL: "http://schemas", Token: "t"}, "would pass schemas in the clear"},
	} {
		if err := c.of.Validate(); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %s", c.of, err, c.want)
		}
	}
}

func TestRecordsCostNoAllocation(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	r := read(t, open(t, Options{URL: server.URL()}), "cents int")
	for _, record := range [][]byte{
		prefixed(register(t, server, "a", sr.TypeAvro, cents), []byte{4}),
		prefixed(register(t, server, "b", sr.TypeProtobuf, `syntax = "proto3"; message A { message B { int64 cents = 1; } }`), []byte{8, 2}, 2, 0, 0),
		prefixed(register(t, server, "c", sr.TypeJSON, `{}`), []byte(`{"cents":2}`)),
	} {
		if got := r.show(t, record); got != "2" {
			t.Fatal(got)
		}
		wake := r.wake
		if n := testing.AllocsPerRun(100, func() {
			if ready, _ := r.Prepare(record, r.turn, wake); !ready || r.Scan(record, r.row) != nil {
				t.Error("the record is not read")
			}
		}); n > 0 {
			t.Errorf("%x: %v allocations", record, n)
		}
	}
}

// FuzzRecords reads what a stranger may write.
func FuzzRecords(f *testing.F) {
	server := srfake.New()
	f.Cleanup(server.Close)
	register(f, server, "a", sr.TypeAvro, cents)
	register(f, server, "b", sr.TypeProtobuf, `syntax = "proto3"; message A { message B { int64 cents = 1; } int64 cents = 1; }`)
	register(f, server, "c", sr.TypeJSON, `{}`)
	for _, record := range [][]byte{prefixed(1, []byte{4}), prefixed(2, []byte{8, 2}, 2, 0, 0), prefixed(2, []byte{8, 2}, 0), prefixed(3, []byte(`{"cents":2}`)), prefixed(4, nil), nil, {1}} {
		f.Add(record)
	}
	all := open(f, Options{URL: server.URL()})
	r := read(f, all, "cents int")
	f.Fuzz(func(t *testing.T, record []byte) {
		if len(record) >= PrefixBytes {
			record[1], record[2], record[3] = 0, 0, 0 // few ids
		}
		if got := r.show(t, record); len(r.programs) > programsMax || got == "" {
			t.Errorf("%x: %s, %d programs", record, got, len(r.programs))
		}
	})
}
