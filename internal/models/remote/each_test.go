package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/internal/test/memnet"
	"github.com/afterbay/afterbay/model"
)

const calls = 4 // that loadInMemory has under way at a time

// loadInMemory loads a model that takes one row a request, in a bubble of synctest.
// Each answer is the status that the function returns for the number of the request,
// from 1; 0 is no answer.
func loadInMemory(t *testing.T, answer func(request int) (status int)) *Model {
	listener, asked := memnet.Listen(), atomic.Int64{}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the end of the caller is not seen
		status := http.StatusOK
		if r.Method == http.MethodPost {
			status = answer(int(asked.Add(1)))
		}
		if status == 0 {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(status)
		fmt.Fprint(w, `{"score": 1}`)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	m, err := Open(Options{
		URL: "http://memory", API: HTTP, Calls: calls, Timeout: time.Minute,
		Inputs: twoNumbers, Outputs: []model.Output{{Name: "score", Size: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	m.server.(*mapped).client.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		return here, listener.Give(there)
	}
	return m
}

// predictRows asks for the scores of n rows. It returns how many calls failed, and how
// many rows had no call.
func predictRows(t *testing.T, m *Model, n int) (faults, untried int) {
	t.Helper()
	err := m.Predict(t.Context(), model.Rows{Width: 2, Values: make([]float64, 2*n)}, make([]float32, n))
	var failed model.RowErrors
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	for _, f := range failed {
		if calling.BlameOf(f.Err) == model.BlameSource {
			untried++
		} else {
			faults++
		}
	}
	return faults, untried
}

// TestRowsBehindFaultsAreNotTriedAtAServerThatIsOutOfOrder has a server answer 10 of 100
// rows, and hang or fail then. It gives the last answers of them late: after most of the
// faults that end the calls.
func TestRowsBehindFaultsAreNotTriedAtAServerThatIsOutOfOrder(t *testing.T) {
	const n, answered = 100, 10
	for name, c := range map[string]struct {
		status int
		late   int // answers
		most   int // faults with no answer between
	}{
		"hangs":                   {0, 0, calls},
		"fails":                   {http.StatusInternalServerError, 0, faultsMax},
		"fails, an answer late":   {http.StatusInternalServerError, 1, faultsMax},
		"fails, all answers late": {http.StatusInternalServerError, calls - 1, faultsMax},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int64
				nearly := make(chan struct{})
				m := loadInMemory(t, func(request int) int {
					asked.Add(1)
					if request == answered+c.most-calls {
						close(nearly)
					}
					switch {
					case request > answered:
						return c.status
					case request > answered-c.late:
						<-nearly
					}
					return http.StatusOK
				})
				faults, untried := predictRows(t, m, n)
				// The calls that end the rest, and those under way beside the newest with an answer, and beside the last fault.
				if bound := answered + c.most + 2*(calls-1); int(asked.Load()) > bound || faults < c.most || faults+untried != n-answered {
					t.Errorf("asked %d times, at most %d are due; of %d rows %d failed and %d were not tried", asked.Load(), bound, n, faults, untried)
				}
			})
		})
	}
}

// TestServerThatAnswersAgainIsAskedForAllRows has a server that leaves one request without
// an answer, fails slowly for as many requests as may not be late, and then answers.
func TestServerThatAnswersAgainIsAskedForAllRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := loadInMemory(t, func(request int) int {
			switch {
			case request <= 10 || request > 10+faultsMax-calls:
				return http.StatusOK
			case request == 11:
				return 0
			}
			time.Sleep(25 * time.Second)
			return http.StatusInternalServerError
		})
		if faults, untried := predictRows(t, m, 100); faults != faultsMax-calls || untried > 0 {
			t.Errorf("%d rows failed and %d were not tried, want %d and none", faults, untried, faultsMax-calls)
		}
	})
}
