package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/lxzan/gws"
)

// naive is the replaced design. An event from a socket goes straight to a worker, by one call per
// event with immediate retries. The result is published to the sockets that subscribe at that
// moment.
type naive struct {
	gws.BuiltinEventHandler
	worker string // URL
	http   *http.Client

	mu          sync.Mutex // guards what follows
	subscribers map[string]chan []byte
}

const (
	workerEnv    = "GATEWAY_LOAD_WORKER"
	naiveTries   = 5
	naiveBackoff = 100 * time.Millisecond // before the second try, doubled before each one more
	naiveBuffer  = 64                     // results that wait for a socket; what is beyond is dropped
)

func serveNaive() error {
	n := &naive{worker: "http://" + os.Getenv(workerEnv) + "/score", http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}, subscribers: map[string]chan []byte{}}
	return serveAt(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := gws.NewUpgrader(n, socketOptions()).Upgrade(w, r)
		if err != nil {
			return
		}
		conn.Session().Store("client", r.Header.Get("Authorization"))
		go n.serve(conn)
	}))
}

// serve reads a socket, and writes what is published for its client.
func (n *naive) serve(conn *gws.Conn) {
	client, results := clientOf(conn), make(chan []byte, naiveBuffer)
	n.mu.Lock()
	n.subscribers[client] = results
	n.mu.Unlock()
	done := make(chan struct{})
	go func() {
		for {
			select {
			case result := <-results:
				_ = conn.WriteMessage(gws.OpcodeText, result) // a failed write loses the result
			case <-done:
				return
			}
		}
	}()
	conn.ReadLoop()
	close(done)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.subscribers[client] == results {
		delete(n.subscribers, client)
	}
}

func clientOf(conn *gws.Conn) string {
	client, _ := conn.Session().Load("client")
	return client.(string)
}

// OnMessage implements gws.Event: it calls the worker, on the goroutine that reads
// the socket.
func (n *naive) OnMessage(conn *gws.Conn, m *gws.Message) {
	defer func() { _ = m.Close() }()
	var event struct {
		EventID string   `json:"eventId"`
		Payload scoreRow `json:"payload"`
	}
	if err := json.Unmarshal(m.Bytes(), &event); err != nil {
		return
	}
	result := fmt.Appendf(nil, `{"type":"result","eventId":%q,"status":"error"}`, event.EventID)
	for try := range naiveTries {
		if try > 0 {
			time.Sleep(naiveBackoff << (try - 1))
		}
		if score, err := n.score(event.Payload); err == nil {
			result = fmt.Appendf(nil, `{"type":"result","eventId":%q,"status":"ok","payload":{"score":%g}}`, event.EventID, score)
			break
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case n.subscribers[clientOf(conn)] <- result:
	default: // no subscriber, or one that does not keep up
	}
}

func (n *naive) score(row scoreRow) (float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	body, err := json.Marshal(scoreRequest{Instances: []scoreRow{row}})
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.worker, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	response, err := n.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	var answer scoreAnswer
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("status %s", response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || len(answer.Predictions) != 1 {
		return 0, fmt.Errorf("%d predictions, %w", len(answer.Predictions), err)
	}
	return answer.Predictions[0].Score, nil
}
