package ingest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
)

func post(t testing.TB, log ingest.Log, path, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("POST /v1/topics/{topic}", ingest.NewHandler(log, func(err error) bool { return errors.Is(err, errFull) }, nil))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w.Code, strings.TrimSpace(w.Body.String()), w.Header()
}

var keyed = stream.Topic{Name: "in", Partitions: 2, Key: "k"}

func TestPostedRecordsAreAnsweredWithTheirPositions(t *testing.T) {
	log := newLog(t, keyed)
	status, body, _ := post(t, log, "/v1/topics/in", "{\"k\":\"a\"}\n{\"k\":\"b\"}\n\n{\"k\":\"c\"}\n{\"k\":\"a\"}\n")
	var reply ingest.Reply
	if err := json.Unmarshal([]byte(body), &reply); err != nil || status != 200 {
		t.Fatal(status, body, err)
	}
	want := map[int32]int{}
	for _, key := range []string{"a", "b", "c", "a"} {
		want[stream.Place([]byte(key), 2)]++
	}
	got := map[int32]int{}
	for _, p := range reply.Positions {
		got[p.Partition] = p.Count
		if p.First != 0 {
			t.Errorf("first offset %d", p.First)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || reply.Appended != 4 || reply.Repeated != 0 {
		t.Errorf("%s: %s", body, diff)
	}
	_, body, _ = post(t, log, "/v1/topics/in?key=other", `{"k":"a","other":5}`)
	if want := fmt.Sprintf(`{"partition":%d,"first":%d,"count":1}`, stream.Place([]byte("5"), 2), want[stream.Place([]byte("5"), 2)]); !strings.Contains(body, want) {
		t.Errorf("%s, want %s: the query chooses the key", body, want)
	}
	if _, body, _ = post(t, log, "/v1/topics/in", "k,n\nz,1\n", "Content-Type", "text/csv; charset=utf-8"); !strings.Contains(body, `"appended":1`) {
		t.Error(body)
	}
	if all := strings.Join(contents(t, log, "in"), " "); !strings.Contains(all, `z={"k":"z","n":1}`) {
		t.Error(all)
	}
}

func TestRepeatedRequestAppendsNothing(t *testing.T) {
	const body = "{\"k\":\"a\"}\n{\"k\":\"b\"}\n"
	log := newLog(t, keyed, stream.Topic{Name: "other", Partitions: 1})
	steps := []struct {
		path, body         string
		headers            []string
		appended, repeated int
	}{
		{"/v1/topics/in", body, []string{"Idempotency-Key", "x"}, 2, 0},
		{"/v1/topics/in", body, []string{"Idempotency-Key", "x"}, 0, 2},
		{"/v1/topics/in", body, []string{"Idempotency-Key", "y"}, 2, 0},
		{"/v1/topics/other", body, []string{"Idempotency-Key", "x"}, 2, 0},
		{"/v1/topics/in", body, []string{"Afterbay-Producer", "x", "Afterbay-Sequence", "1"}, 2, 0},
		{"/v1/topics/in", body, []string{"Afterbay-Producer", "x", "Afterbay-Sequence", "2"}, 1, 1},
		{"/v1/topics/in", body, []string{"Afterbay-Producer", "x", "Afterbay-Sequence", "1"}, 0, 2},
		{"/v1/topics/in", body, nil, 2, 0},
		{"/v1/topics/in", body, nil, 2, 0},
	}
	for i, step := range steps {
		status, text, _ := post(t, log, step.path, step.body, step.headers...)
		var reply ingest.Reply
		if err := json.Unmarshal([]byte(text), &reply); err != nil || status != 200 {
			t.Fatal(i, status, text, err)
		}
		count := 0
		for _, p := range reply.Positions {
			count += p.Count
		}
		if reply.Appended != step.appended || reply.Repeated != step.repeated || count != step.appended {
			t.Errorf("step %d: %s", i, text)
		}
	}
	if n := len(contents(t, log, "in")); n != 11 {
		t.Errorf("%d records, want 11", n)
	}
}

var errFull = errors.New("no room")

// broken is a log whose appends fail.
type broken struct {
	*memory.Log
	err error
}

func (b broken) Append(context.Context, ...stream.Record) error { return b.err }

func TestRefusedRequestsSayWhatToDo(t *testing.T) {
	long := strings.Repeat("x", ingest.LineBytesMax+1)
	tests := []struct {
		name, path, body string
		headers          []string
		err              error
		status           int
		want             string
	}{
		{"unknown topic", "/v1/topics/out", "{}", nil, nil, 404, `unknown topic \"out\"","hint":"the topics are in; run`},
		{"empty body", "/v1/topics/in", "", nil, nil, 400, "the body has no records"},
		{"blank body", "/v1/topics/in", "\n \n", nil, nil, 400, "the body has no records"},
		{"line too long", "/v1/topics/in", "{}\n" + long, nil, nil, 413, "body:2: the line is longer than 1 MiB"},
		{"body too large", "/v1/topics/in", strings.Repeat(long[1:]+"\n", 17), nil, nil, 413, "the body is larger than 16 MiB"},
		{"too many records", "/v1/topics/in", strings.Repeat("1\n", 100_001), nil, nil, 413, "more than 100000 records"},
		{"bad CSV header", "/v1/topics/in", "a,a\n1,2\n", []string{"Content-Type", "text/csv"}, nil, 400, "body:1: the header names column"},
		{"two numberings", "/v1/topics/in", "{}", []string{"Idempotency-Key", "x", "Afterbay-Producer", "y"}, nil, 400, "send one of the two"},
		{"sequence missing", "/v1/topics/in", "{}", []string{"Afterbay-Producer", "y"}, nil, 400, "is missing"},
		{"producer missing", "/v1/topics/in", "{}", []string{"Afterbay-Sequence", "1"}, nil, 400, "is missing"},
		{"sequence 0", "/v1/topics/in", "{}", []string{"Afterbay-Producer", "y", "Afterbay-Sequence", "0"}, nil, 400, "is not a number from 1"},
		{"sequence too high", "/v1/topics/in", "{}", []string{"Afterbay-Producer", "y", "Afterbay-Sequence", "9223372036854775807"}, nil, 400, "is not a number from 1"},
		{"producer too long", "/v1/topics/in", "{}", []string{"Idempotency-Key", long[:600]}, nil, 400, "more than 512 bytes"},
		{"log full", "/v1/topics/in", "{}", nil, errFull, 507, "free disk space"},
		{"closing", "/v1/topics/in", "{}", nil, stream.ErrClosed, 503, "send it again"},
		{"frame too large", "/v1/topics/in", "{}", nil, stream.ErrTooLarge, 413, "send several requests"},
		{"anything else", "/v1/topics/in", "{}", nil, errors.New("disk on fire"), 500, "disk on fire"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			log := newLog(t, stream.Topic{Name: "in", Partitions: 1})
			var to ingest.Log = log
			if test.err != nil {
				to = broken{log, test.err}
			}
			status, body, header := post(t, to, test.path, test.body, test.headers...)
			if status != test.status || !strings.Contains(body, test.want) || !strings.Contains(body, `"hint":`) {
				t.Errorf("%d %.300s, want %d %s", status, body, test.status, test.want)
			}
			if again := header.Get("Retry-After") != ""; again != (status == 507 || status == 503) {
				t.Errorf("Retry-After %t for %d", again, status)
			}
			if n := len(contents(t, log, "in")); n != 0 {
				t.Errorf("%d records appended", n)
			}
		})
	}
}
