package admin

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/stream"
)

func (s *Server) createTopic(w http.ResponseWriter, r *http.Request) {
	var topic struct {
		Partitions int32  `json:"partitions"`
		Key        string `json:"key"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10)).Decode(&topic); err != nil {
		problem(w, http.StatusBadRequest, `send {"partitions":4,"key":"field"}`, "read the topic: %v", err)
		return
	}
	made := stream.Topic{Name: r.PathValue("topic"), Partitions: topic.Partitions, Key: topic.Key}
	switch takes, err := s.local.Takes(r.Context(), made.Name); {
	case err != nil:
		refuse(w, err)
		return
	case !takes:
		problem(w, http.StatusBadRequest, "choose another name, or start the pipeline that reads the topic", "create topic %q: names like that are the engine's own", made.Name)
		return
	}
	if len(made.Key) > keyBytesMax || strings.ContainsFunc(made.Key, unicode.IsControl) {
		problem(w, http.StatusBadRequest, "name a field of the records", "create topic %q: key has control characters, or more than %d bytes", made.Name, keyBytesMax)
		return
	}
	switch err := s.log.CreateTopic(r.Context(), made); {
	case errors.Is(err, stream.ErrTopicInvalid):
		problem(w, http.StatusBadRequest, "", "%v", err)
	case err != nil:
		problem(w, http.StatusConflict, "run afterbay topics to list the topics", "%v", err)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// keyBytesMax limits the name of a topic's key field.
const keyBytesMax = 256

func (s *Server) deleteTopic(w http.ResponseWriter, r *http.Request) {
	if err := s.local.DeleteTopic(r.Context(), r.PathValue("topic")); err != nil {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) topics(w http.ResponseWriter, r *http.Request) {
	list, err := s.local.List(r.Context())
	if err != nil {
		refuse(w, err)
		return
	}
	caller := access.From(r.Context())
	list = slices.DeleteFunc(list, func(t inspect.Topic) bool { return !caller.Knows(t.Name) })
	ingest.WriteJSON(w, http.StatusOK, map[string][]inspect.Topic{"topics": list})
}

func refuse(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, stream.ErrUnknownTopic), errors.Is(err, inspect.ErrUnknownPipeline):
		problem(w, http.StatusNotFound, "", "%v", err)
	case errors.Is(err, inspect.ErrNamed), errors.Is(err, stream.ErrTopicInUse):
		problem(w, http.StatusConflict, "", "%v", err)
	case errors.Is(err, deadletter.ErrBusy):
		problem(w, http.StatusConflict, "try again when it is done", "%v", err)
	case errors.Is(err, stream.ErrClosed):
		problem(w, http.StatusServiceUnavailable, "the process is stopping: try again after its restart", "%v", err)
	default:
		problem(w, http.StatusInternalServerError, "see the log of the process", "%v", err)
	}
}

// parseQuery parses partition, offset, limit and follow.
func parseQuery(r *http.Request) (inspect.Query, error) {
	q := inspect.Query{Topic: r.PathValue("topic"), Partition: inspect.AllPartitions}
	values := r.URL.Query()
	number := func(name string, bits int, def int64) (int64, error) {
		if !values.Has(name) {
			return def, nil
		}
		return strconv.ParseInt(values.Get(name), 10, bits)
	}
	partition, err := number("partition", 32, int64(inspect.AllPartitions))
	q.Partition = int32(partition)
	from, err1 := number("offset", 64, 0)
	limit, err2 := number("limit", 64, 0)
	q.From, q.Limit = from, max(limit, 0)
	var err3 error
	if values.Has("follow") {
		q.Follow, err3 = strconv.ParseBool(values.Get("follow"))
	}
	var err4 error
	if values.Has("view") {
		q.View, err4 = strconv.ParseBool(values.Get("view"))
	}
	if q.View && q.From != 0 {
		err4 = errors.New("a view is read from its beginning")
	}
	return q, errors.Join(err, err1, err2, err3, err4)
}

func (s *Server) records(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r)
	if err != nil {
		problem(w, http.StatusBadRequest, "partition, offset and limit are numbers, follow and view are true or false", "read the query: %v", err)
		return
	}
	streamLines(s, w, r, func(ctx context.Context) iter.Seq2[stream.Record, error] { return s.local.Records(ctx, q) },
		func(dst []byte, record stream.Record) []byte { return inspect.AppendRecord(dst, &record) })
}

func (s *Server) state(w http.ResponseWriter, r *http.Request) {
	var key *string
	if r.Pattern == "GET /v1/state/{pipeline}/{key...}" {
		text := r.PathValue("key")
		key = &text
	}
	kind := r.URL.Query().Get("kind")
	if len(kind) > 1 || kind != "" && key != nil {
		problem(w, http.StatusBadRequest, "kind must be one letter, for entries of all keys", "read the query: kind %q", kind)
		return
	}
	streamLines(s, w, r, func(ctx context.Context) iter.Seq2[inspect.Entry, error] {
		if kind != "" {
			return s.local.EntriesOf(ctx, r.PathValue("pipeline"), kind[0])
		}
		return s.local.Entries(ctx, r.PathValue("pipeline"), key)
	}, inspect.AppendEntry)
}
