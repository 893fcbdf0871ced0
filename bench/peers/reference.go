package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/afterbay/afterbay/internal/lab/demo/baseline"
	"github.com/afterbay/afterbay/internal/models/tree"
	"github.com/afterbay/afterbay/model"
)

// event is what the work reads of an input event.
type event struct {
	UserID  string `json:"user_id"`
	TS      int64  // milliseconds
	Amount  float64
	Country string
	Channel string
	Device  string
}

// reference computes the work one event at a time, in the simplest way. Every system must produce
// its scores. The tests compare it with XGBoost itself.
type reference struct {
	model *tree.Model
	users map[string]*user
	row   []float64
}

// user is the state of one user. Panes are by number.
type user struct {
	windows [3]map[int64]pane
	last    int64
	scores  []float64
}

type pane struct{ count, cents, most int64 }

var (
	paneMillis = [3]int64{5_000, 30_000, 60_000}
	paneCount  = [3]int64{12, 10, 60}
	countries  = map[string]int{"US": 0, "GB": 1, "DE": 2, "FR": 3, "BR": 4, "IN": 5, "NG": 6, "PL": 7, "JP": 8, "ZA": 9}
	channels   = map[string]int{"web": 0, "app": 1, "api": 2, "partner": 3}
	devices    = map[string]int{"ios": 0, "android": 1, "desktop": 2, "other": 3}
)

func newReference() (*reference, error) {
	data, err := baseline.Files.ReadFile("model.ubj")
	if err != nil {
		return nil, err
	}
	m, err := tree.Parse("model.ubj", data)
	if err != nil {
		return nil, err
	}
	return &reference{model: m, users: map[string]*user{}}, nil
}

// score returns the score of the next event.
func (r *reference) score(line []byte) (float32, error) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return 0, fmt.Errorf("read event: %w", err)
	}
	u := r.users[e.UserID]
	if u == nil {
		u = &user{windows: [3]map[int64]pane{{}, {}, {}}, last: -1}
		r.users[e.UserID] = u
	}
	r.row = u.appendRow(r.row[:0], e)
	scores := make([]float32, 1)
	if err := r.model.Predict(context.Background(), model.Rows{Width: len(r.row), Values: r.row}, scores); err != nil {
		return 0, err
	}
	u.scores = append(u.scores, float64(scores[0]))
	u.scores = u.scores[max(0, len(u.scores)-10):]
	return scores[0], nil
}

// appendRow takes an event in and appends its features to row.
func (u *user) appendRow(row []float64, e event) []float64 {
	cents := int64(math.Round(e.Amount * 100))
	for k := range u.windows {
		count, sum, most := u.window(k, e.TS/paneMillis[k], cents)
		mean := 0.0
		if count > 0 {
			mean = float64(sum) / 100 / float64(count)
		}
		row = append(row, float64(count), float64(sum)/100, mean, float64(most)/100)
	}
	since := -1.0
	if u.last >= 0 {
		since = max(0, float64(e.TS-u.last)/1000)
	}
	u.last = max(u.last, e.TS)
	mean := 0.0
	for _, score := range u.scores {
		mean += score
	}
	if len(u.scores) > 0 {
		mean /= float64(len(u.scores))
	}
	code := countries[e.Country]*16 + channels[e.Channel]*4 + devices[e.Device]
	return append(row, float64(cents)/100, since, mean, float64(code))
}

// window adds cents to pane i of a window and returns count, sum and most of the
// panes up to i.
func (u *user) window(k int, i, cents int64) (count, sum, most int64) {
	panes, newest := u.windows[k], i
	for j := range panes {
		newest = max(newest, j)
	}
	if oldest := newest - paneCount[k]; i > oldest {
		p := panes[i]
		panes[i] = pane{p.count + 1, p.cents + cents, max(p.most, cents)}
		for j := range panes {
			if j <= oldest {
				delete(panes, j)
			}
		}
	}
	for j, p := range panes {
		if j <= i {
			count, sum, most = count+p.count, sum+p.cents, max(most, p.most)
		}
	}
	return count, sum, most
}
