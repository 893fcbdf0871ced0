package files_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/internal/sinks/files"
	"github.com/afterbay/afterbay/internal/sys/s3"
	"github.com/afterbay/afterbay/internal/test/servertest"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// store is a server of S3 with the bucket lake.
type store struct {
	*servertest.S3Server
	client *s3.Client
}

func newStore(t *testing.T) *store {
	t.Helper()
	s := &store{S3Server: servertest.S3(t)}
	t.Setenv("AWS_ACCESS_KEY_ID", s.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s.SecretKey)
	t.Setenv("AWS_ENDPOINT_URL_S3", s.URL)
	t.Setenv("AWS_REGION", s.Region)
	client, err := s3.New(s3.Options{Client: &http.Client{}})
	if err != nil {
		t.Fatal(err)
	}
	s.client = client
	s.do(t, http.MethodPut, "", nil)
	return s
}

// TestBucketsKeepObjectsAsFoldersDo has one server for all, since it takes seconds
// to start.
func TestBucketsKeepObjectsAsFoldersDo(t *testing.T) {
	s := newStore(t)
	for _, c := range []struct {
		name string
		test func(*testing.T, *store)
	}{
		{"written once", objectsAreWrittenOnce}, {"foreign object", foreignObjectIsAnError},
		{"check", checkSaysWhatIsWrong}, {"away", storeThatIsAwayLosesNothing},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, s) })
	}
}

// do asks the server about an object, and returns the answer's body.
func (s *store) do(t *testing.T, method, key string, body []byte) []byte {
	t.Helper()
	response, err := s.client.Do(t.Context(), method, "lake", key, nil, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, key, err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func objectsAreWrittenOnce(t *testing.T, s *store) {
	records := []stream.Record{record(1, "1", "d", `{"s":"a","n":1}`), record(2, "1", "d", `{"s":"b","n":2}`)}
	const object = "p.lake/generation-1/partition-3/00000000000000000001-00000000000000000003"
	for ending, o := range map[string]files.Options{".parquet": {Columns: typed}, ".ndjson.gz": {Format: files.NDJSON, Compress: "gzip"}, ".ndjson": {Format: files.NDJSON}} {
		o.URL = "s3://lake/deep/er"
		var before []byte
		for range 2 {
			a := newArchive(t, o)
			if errs := a.Check(t.Context()); errs != nil {
				t.Fatal(errs)
			}
			if kept, _, err := keep(t.Context(), a, a.Form(nil), records...); err != nil || kept != 2 {
				t.Fatal(kept, err)
			}
			after := s.do(t, http.MethodGet, "deep/er/"+object+ending, nil)
			if len(after) == 0 || before != nil && !bytes.Equal(before, after) {
				t.Errorf("%s: it changed", ending)
			}
			before = after
			a.Close()
		}
		local := t.TempDir()
		o.URL = "file://" + local
		a := newArchive(t, o)
		if _, _, err := keep(t.Context(), a, a.Form(nil), records...); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tree(t, local)[object+ending], before); diff != "" {
			t.Errorf("%s: other bytes than in a folder:\n%s", ending, diff)
		}
	}
}

func foreignObjectIsAnError(t *testing.T, s *store) {
	a := newArchive(t, files.Options{URL: "s3://lake/foreign", Format: files.NDJSON})
	defer a.Close()
	const object = "foreign/p.lake/generation-1/partition-3/00000000000000000001-00000000000000000002.ndjson"
	s.do(t, http.MethodPut, object, []byte("of somebody else"))
	_, _, err := keep(t.Context(), a, a.Form(nil), record(1, "1", "d", "{}"))
	var taken *files.TakenError
	if !errors.As(err, &taken) || taken.Name != s.URL+"/lake/"+object {
		t.Error(err)
	}
	if got := s.do(t, http.MethodGet, object, nil); string(got) != "of somebody else" {
		t.Errorf("it is %q now", got)
	}
}

func checkSaysWhatIsWrong(t *testing.T, s *store) {
	check := func(url string) string {
		a := newArchive(t, files.Options{URL: url, Format: files.NDJSON})
		defer a.Close()
		return fmt.Sprint(a.Check(t.Context()))
	}
	if got := check("s3://lake/x"); got != "[]" {
		t.Error(got)
	}
	if got := check("s3://pond"); !strings.Contains(got, "no bucket pond") || !strings.Contains(got, s.URL) {
		t.Error(got)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "of somebody else")
	if got := check("s3://lake"); !strings.Contains(got, "403") {
		t.Error(got)
	}
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
	if got := check("s3://lake"); !strings.Contains(got, "127.0.0.1:1") {
		t.Error(got)
	}
}

// storeThatIsAwayLosesNothing delivers while the server does not answer, and
// after it comes back.
func storeThatIsAwayLosesNothing(t *testing.T, s *store) {
	log := memory.New(memory.Options{})
	defer log.Close()
	p := stream.Partition{Topic: "out", Index: 3}
	if err := log.CreateTopic(t.Context(), stream.Topic{Name: "out", Partitions: 4}); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if err := log.Append(t.Context(), record(i, "1", "d", fmt.Sprintf(`{"i":%d}`, i))); err != nil {
			t.Fatal(err)
		}
	}
	a := newArchive(t, files.Options{URL: "s3://lake/away", Format: files.NDJSON})
	defer a.Close()
	metrics := &sinks.Metrics{}
	d, err := sinks.New(log, sink.Service{Whole: a}, sinks.Options{
		Group: "p.lake", Topic: "out", Timeout: 2 * time.Second, Objects: sink.Bounds{Rows: 10},
	}, metrics)
	if err != nil {
		t.Fatal(err)
	}
	s.Pause()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	until := time.After(5 * time.Minute)
	for committed := stream.Offset(0); committed < 50; {
		select {
		case <-ticker.C:
		case <-until:
			t.Fatalf("only %d records are kept", committed)
		}
		if metrics.Failures.Load() >= 2 {
			s.Resume()
		}
		if committed, err = log.Committed(t.Context(), "p.lake", p); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for from := range 5 {
		object := fmt.Sprintf("away/p.lake/generation-1/partition-3/%020d-%020d.ndjson", from*10, from*10+10)
		if n := bytes.Count(s.do(t, http.MethodGet, object, nil), []byte("\n")); n != 10 {
			t.Errorf("%s has %d records", object, n)
		}
	}
}
