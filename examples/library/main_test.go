package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/scenario"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// TestVisitsEndAfterSilence compares with visits.txt, in memory and on disk, in
// steps of all sizes, killed at every stage.
func TestVisitsEndAfterSilence(t *testing.T) {
	scenario.Test(t, "visits.txt", scenario.Options{Code: code})
}

// TestVisitsAreTheSameUnderFaults sees a step that reads a clock, randomness or
// a variable: its outputs differ when commits are lost and sessions change.
func TestVisitsAreTheSameUnderFaults(t *testing.T) {
	var clicks []stream.Record
	for i := range 500 {
		user, at := fmt.Sprint("user-", i*i%17), 1767258000+i*40
		clicks = append(clicks, stream.Record{
			Partition: stream.Partition{Topic: "clicks", Index: stream.ByKey}, Time: time.Unix(int64(at), 0),
			Key: []byte(user), Value: fmt.Appendf(nil, `{"user":%q,"page":"p%d","at":%d}`, user, i%5, at),
		})
	}
	newLog := func() stream.Log { return memory.New(memory.Options{RebalanceTimeout: time.Second}) }
	newRunner := func() (streamtest.Runner, error) { return newRunner(afterbay.Options{Sessions: 2}) }
	streamtest.SameAnswer(t, newLog, newRunner, clicks, 10)
}
