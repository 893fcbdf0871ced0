package remote

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/afterbay/afterbay/model"
)

// TestRowsBehindFaultsAreNotTriedAtAServerThatIsOutOfOrder has a server answer 10 of 100
// rows, and hang or fail then. Each row is a request of its own, 4 at a time.
func TestRowsBehindFaultsAreNotTriedAtAServerThatIsOutOfOrder(t *testing.T) {
	const n, calls, answered = 100, 4, 10
	for name, c := range map[string]struct {
		hangs bool
		most  int // faults with no answer between
	}{"hangs": {true, calls}, "fails": {false, faultsMax}} {
		var asked atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // else the end of the caller is not seen
			switch good := r.Method != http.MethodPost || asked.Add(1) <= answered; {
			case good:
				fmt.Fprint(w, `{"score": 1}`)
			case c.hangs:
				<-r.Context().Done()
			default:
				w.WriteHeader(http.StatusInternalServerError)
			}
		}))
		t.Cleanup(server.Close)
		m := loadFrom(t, Options{
			URL: server.URL, API: HTTP, Calls: calls, Timeout: time.Minute,
			Inputs: twoNumbers, Outputs: []model.Output{{Name: "score", Size: 1}},
		})
		ctx := model.WithTimeout(t.Context(), time.Second)
		err := m.Predict(ctx, model.Rows{Width: 2, Values: make([]float64, 2*n)}, make([]float32, n))
		var failed model.RowErrors
		if !errors.As(err, &failed) {
			t.Fatalf("%s: %v", name, err)
		}
		faults, untried := 0, 0
		for _, f := range failed {
			if model.BlameOf(f.Err) == model.BlameSource {
				untried++
			} else {
				faults++
			}
		}
		if got := int(asked.Load()); got > answered+c.most+2*calls || faults+untried < n-answered || faults < c.most {
			t.Errorf("%s: asked %d times; of %d rows %d failed and %d were not tried", name, got, n, faults, untried)
		}
	}
}
