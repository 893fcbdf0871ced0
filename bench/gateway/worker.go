package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"time"
)

// The worker simulates one that computes on a device. A call takes a fixed time and a little for
// each row, regardless of the processor. A limited number of calls run at a time.
const (
	workerSlots = 4
	callCost    = 4 * time.Millisecond
	rowCost     = 250 * time.Microsecond
	callTimeout = time.Second // of both designs
	failRate    = 0.03        // of calls, which are computed and then answered by 503
	hangRate    = 0.002       // of calls, which hold a slot and have no answer in time
	hangTime    = 2 * time.Second

	seedEnv = "GATEWAY_LOAD_SEED"
)

// worker counts its calls, and how long its slots are held.
type worker struct {
	slots chan struct{}

	mu     sync.Mutex // guards the fields below
	random *rand.Rand
	load   load
}

// load holds the counts of a worker.
type load struct {
	Calls, Rows, Failed, Hung int
	Busy                      time.Duration // of all slots
}

func (l *load) add(of load) {
	l.Calls, l.Rows, l.Failed, l.Hung, l.Busy = l.Calls+of.Calls, l.Rows+of.Rows, l.Failed+of.Failed, l.Hung+of.Hung, l.Busy+of.Busy
}

// serveWorker scores texts: {"instances": [{"text": "..."}]} is answered by
// {"predictions": [{"score": 0.5}]}.
func serveWorker() error {
	var seed uint64
	if _, err := fmt.Sscan(os.Getenv(seedEnv), &seed); err != nil {
		return err
	}
	w := &worker{slots: make(chan struct{}, workerSlots), random: rand.New(rand.NewPCG(seed, 0))}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /score", w.score)
	mux.HandleFunc("GET /load", func(rw http.ResponseWriter, _ *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		_ = json.NewEncoder(rw).Encode(w.load) // the client may be gone
	})
	return serveAt(mux)
}

type (
	scoreRequest struct {
		Instances []scoreRow `json:"instances"`
	}
	scoreRow struct {
		Text string `json:"text"`
	}
	scoreAnswer struct {
		Predictions []prediction `json:"predictions"`
	}
	prediction struct {
		Score float64 `json:"score"`
	}
)

func (w *worker) score(rw http.ResponseWriter, r *http.Request) {
	var request scoreRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case w.slots <- struct{}{}:
	case <-r.Context().Done(): // it was not computed
		return
	}
	took, fails := w.cost(len(request.Instances))
	time.Sleep(took)
	<-w.slots
	if fails {
		http.Error(rw, "the device failed", http.StatusServiceUnavailable)
		return
	}
	answer := scoreAnswer{Predictions: make([]prediction, len(request.Instances))}
	for i, row := range request.Instances {
		answer.Predictions[i].Score = float64(len(row.Text)%100) / 100
	}
	_ = json.NewEncoder(rw).Encode(answer) // the client may be gone
}

// cost returns how long a call with this many rows holds a slot, and whether it fails.
func (w *worker) cost(rows int) (took time.Duration, fails bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	took = callCost + time.Duration(rows)*rowCost
	switch p := w.random.Float64(); {
	case p < hangRate:
		took = hangTime
		w.load.Hung++
	case p < hangRate+failRate:
		fails = true
		w.load.Failed++
	}
	w.load.Calls++
	w.load.Rows += rows
	w.load.Busy += took
	return took, fails
}
