package main

import (
	"encoding/json"
	"time"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/udf"
)

// code holds the functions that the pipeline file names.
var code = afterbay.Code{Functions: map[string]udf.Function{"visits": visits}}

// A pause of this length ends a visit.
const silence = 30 * time.Minute

// visit is the step's state of a user.
type visit struct {
	User   string    `json:"user"`
	Clicks int64     `json:"clicks"`
	Start  time.Time `json:"start"`
	End    time.Time `json:"end"`
	Last   string    `json:"last"` // page
}

// visits counts the clicks of a visit, and writes the visit when it has ended.
var visits = udf.Function{Version: 1, Keyed: true, Event: click, Timer: leave}

func click(c *udf.Context) error {
	v := visit{User: c.Key, Start: c.Time}
	if stored := c.Get("visit"); stored != nil {
		if err := json.Unmarshal(stored, &v); err != nil {
			return err
		}
	}
	v.Clicks++
	if !c.Time.Before(v.End) { // clicks may come out of order
		v.End, v.Last = c.Time, c.Text("page")
	}
	stored, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.Put("visit", stored)
	c.SetTimer("leave", v.End.Add(silence)) // replaces the one before
	c.SetInt("clicks", v.Clicks)
	return nil
}

func leave(c *udf.Context) error {
	c.Emit(udf.Output{Topic: "visits", Value: c.Get("visit")})
	c.Put("visit", nil)
	return nil
}
