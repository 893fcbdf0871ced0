package faultserver

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server is the handler of a server that fails.
type Server struct {
	options Options
	file    *os.File // nil notes nothing

	mutex       sync.Mutex      // guards the fields below
	tries       map[uint64]int  // by the hash of a body
	names       map[string]bool // paid for
	flying      int
	burst, flap cycle
	answered    int // calls since a time began that begins with one; enough before the first
}

var _ http.Handler = (*Server)(nil)

// New returns a server that knows the calls in its file.
func New(o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Server{options: o.withDefaults(), tries: map[uint64]int{}, names: map[string]bool{}, answered: between}
	s.burst, s.flap = newCycle(o.Burst, time.Now()), newCycle(o.Flap, time.Now())
	if o.File == "" {
		return s, nil
	}
	calls, err := ReadCalls(o.File)
	if err != nil {
		return nil, err
	}
	for i := range calls {
		if c := &calls[i]; c.Paid && c.Name != "" {
			s.names[c.Name] = true
		}
	}
	s.file, err = os.OpenFile(o.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return s, err
}

// Close closes the file.
func (s *Server) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

const (
	bodyMax = 64 << 20
	hashed  = 1 << 24 // scores are whole 2^24ths, which float32 has exactly
)

// Score returns the score of a row, 0 to below 1: of the texts of its values as
// they stand in the request, numbers as they are and texts without quotes.
func Score(values ...string) float32 {
	return float32(hash(rowText(values))%hashed) / hashed
}

func rowText(values []string) string {
	var text strings.Builder
	for _, value := range values {
		text.WriteString(strconv.Quote(value))
	}
	return text.String()
}

func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, text)
	// The low bits of FNV are those of the last bytes: mix them.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost { // metadata, which says nothing but that it is there
		fmt.Fprint(w, `{"name": "faults"}`)
		return
	}
	s.count(1)
	defer s.count(-1)
	if s.during(&s.flap) {
		s.note(r, nil, Down, false)
		reset(w)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMax))
	if err != nil {
		return // the client is gone
	}
	if r.URL.Path == transcriptions {
		if body, err = soundOf(r, body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	rows, err := rowsOf(r.URL.Path, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fault := s.fault(body)
	pause(r, s.options.Takes)
	if fault == Slow {
		pause(r, s.options.SlowFor)
	}
	if s.poisoned(rows) {
		s.note(r, rows, Poisoned, false)
		http.Error(w, `{"error": "this row is refused"}`, http.StatusBadRequest)
		return
	}
	switch fault {
	case Fail:
		s.note(r, rows, fault, false)
		http.Error(w, `{"error": "out of order"}`, http.StatusInternalServerError)
		return
	case Hang:
		s.note(r, rows, fault, false)
		<-r.Context().Done()
		return
	}
	s.note(r, rows, fault, true)
	s.answer(w, r, rows, fault, hash(string(body)))
	if fault == None || fault == Slow {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.answered++
	}
}

// count counts calls under way.
func (s *Server) count(by int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.flying += by
}

// during reports whether a call that comes now falls into a time of a cycle.
func (s *Server) during(c *cycle) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return c.on(time.Now(), &s.answered)
}

// fault chooses the fault of a call. It depends on the body, on the number of calls with the same
// body, and on the time if there are bursts.
func (s *Server) fault(body []byte) Fault {
	if s.during(&s.burst) {
		return Fail
	}
	of := hash(string(body))
	s.mutex.Lock()
	try := s.tries[of]
	if try < s.options.Tries {
		s.tries[of]++
	}
	s.mutex.Unlock()
	if try >= s.options.Tries {
		return None
	}
	var seed [24]byte
	binary.LittleEndian.PutUint64(seed[:], s.options.Seed)
	binary.LittleEndian.PutUint64(seed[8:], of)
	binary.LittleEndian.PutUint64(seed[16:], uint64(try))
	at := float64(hash(string(seed[:]))%hashed) / hashed
	for _, f := range s.options.shares() {
		if at < f.share {
			return f.fault
		}
		at -= f.share
	}
	return None
}

func (s *Server) poisoned(rows [][]string) bool {
	for _, row := range rows {
		if s.options.Poison != "" && strings.Contains(strings.Join(row, "\n"), s.options.Poison) {
			return true
		}
	}
	return false
}

// note records a call. It is a single write, so that a kill cannot cut a record.
func (s *Server) note(r *http.Request, rows [][]string, fault Fault, paid bool) {
	c := Call{At: time.Now().UnixMicro(), Path: r.URL.Path, Name: r.Header.Get("Idempotency-Key"), Fault: fault, Paid: paid, Rows: []string{}}
	for _, row := range rows {
		c.Rows = append(c.Rows, strconv.FormatUint(hash(rowText(row)), 36))
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	c.Flying = s.flying
	if c.Name != "" && paid {
		if s.options.Honour && s.names[c.Name] {
			c.Paid, c.Repeat = false, true
		}
		s.names[c.Name] = true
	}
	if s.file == nil {
		return
	}
	line, err := json.Marshal(c)
	if err == nil {
		_, err = s.file.Write(append(line, '\n'))
	}
	if err != nil {
		panic(err) // a call that is not recorded gets no answer
	}
}

// answer answers a call that was paid for.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, rows [][]string, fault Fault, of uint64) {
	scores := make([]*float32, len(rows))
	for i, row := range rows {
		score := Score(row...)
		scores[i] = &score
	}
	if fault == Reset {
		reset(w)
		return
	}
	if fault == Wrong {
		kind := of % 4
		if kind == 2 && !hasRows(r.URL.Path) {
			kind = 0
		}
		switch kind {
		case 0:
			fmt.Fprint(w, "<html>so sorry</html>")
			return
		case 1:
			return
		case 2:
			rows, scores = append(rows, rows[0]), append(scores, scores[0])
		case 3:
			scores[of/4%uint64(len(scores))] = nil
		}
	}
	text, err := json.Marshal(answerOf(r.URL.Path, rows, scores))
	if err != nil {
		panic(err) // plain data can be encoded
	}
	w.Header().Set("Content-Type", "application/json")
	if fault == Half {
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = w.Write(text[:len(text)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(text)
}

func answerOf(path string, rows [][]string, scores []*float32) any {
	if answer := answerOpenAI(path, rows, scores); answer != nil {
		return answer
	}
	if !isInference(path) {
		return map[string]any{"score": scores[0]}
	}
	return map[string]any{"model_name": "faults", "outputs": []any{map[string]any{
		"name": "score", "datatype": "FP32", "shape": []int{len(scores), 1}, "data": scores,
	}}}
}

func isInference(path string) bool {
	return strings.HasPrefix(path, "/v2/models/") && strings.HasSuffix(path, "/infer")
}

// hasRows reports whether a call is about rows that are answered one by one.
func hasRows(path string) bool {
	return isInference(path) || path == embeddings || path == moderations
}

// rowsOf returns the values of the rows of a call as texts.
func rowsOf(path string, body []byte) ([][]string, error) {
	if path == embeddings || path == moderations {
		return inputsOf(body)
	}
	if !isInference(path) {
		return [][]string{{string(body)}}, nil
	}
	var request struct {
		Inputs []struct {
			Shape []int
			Data  json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, fmt.Errorf("read the request, which is to be JSON alone: %w", err)
	}
	var rows [][]string
	for _, in := range request.Inputs {
		values, err := valuesOf(in.Data)
		if err != nil {
			return nil, err
		}
		if len(in.Shape) == 0 || in.Shape[0] < 1 || len(values)%in.Shape[0] != 0 || rows != nil && len(rows) != in.Shape[0] {
			return nil, fmt.Errorf("%d values of shape %v", len(values), in.Shape)
		}
		if rows == nil {
			rows = make([][]string, in.Shape[0])
		}
		for i, width := 0, len(values)/len(rows); i < len(rows); i++ {
			rows[i] = append(rows[i], values[i*width:(i+1)*width]...)
		}
	}
	if rows == nil {
		return nil, errors.New("a call without inputs")
	}
	return rows, nil
}

// valuesOf returns the texts of values in arrays of any depth.
func valuesOf(data []byte) (values []string, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the values: %w", err)
		}
		if _, ok := token.(json.Delim); !ok {
			values = append(values, fmt.Sprint(token))
		}
	}
}

// pause waits, or until the client is gone.
func pause(r *http.Request, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

// reset resets the connection, as a process that is killed does.
func reset(w http.ResponseWriter) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = connection.Close()
}
