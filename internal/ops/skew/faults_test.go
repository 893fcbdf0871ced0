package skew_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// inspected is a log with faults, which is inspected without.
type inspected struct {
	stream.Log
	stream.Inspector
}

// failsOn is goesOn with small transactions, of which many are lost or hidden.
func failsOn(t testing.TB, sound *memory.Log, seed uint64) {
	t.Helper()
	runners := runnersOf(t, sound, 20)
	log := inspected{streamtest.NewFaulty(sound, streamtest.FaultyOptions{Seed: seed, Percent: map[streamtest.Fault]int{streamtest.CommitLost: 10, streamtest.CommitHidden: 10}}), sound}
	done(t, log, runners)
}

// TestStateAfterFaultsIsThatOfAReplay has steps be lost while events wait, again and again.
// What waits in the end is what it is in a run without faults.
func TestStateAfterFaultsIsThatOfAReplay(t *testing.T) {
	for name, yaml := range map[string]string{
		"first":    strings.Replace(ads, "match: last", "match: first", 1),
		"last":     ads,
		"each":     strings.Replace(ads, "match: last", "match: each", 1),
		"windows":  strings.Replace(visits, "GROUP", "every: 1m, size: 5m, values: {spent: {sum: amount}}", 1),
		"sessions": strings.Replace(visits, "GROUP", "idle: 20s, values: {spent: {sum: amount}}", 1),
		"members":  strings.Replace(visits, "GROUP", "idle: 20s, timeout: 1h, values: {spent: {sum: amount}}", 1),
		"tables":   strings.Replace(asOf, "HISTORY", "1m", 1),
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(2) {
				log := newLog(t, yaml, stream.Topic{Name: "payments", Partitions: 3, Key: "card"}, stream.Topic{Name: "shops", Partitions: 2, Key: "shop"}, stream.Topic{Name: "owners", Partitions: 3, Key: "card"},
					stream.Topic{Name: "impressions", Partitions: 1, Key: "user"}, stream.Topic{Name: "clicks", Partitions: 1, Key: "user"})
				for i := range 400 {
					at, user := nine+int64(i)*1000, fmt.Sprintf("u%02d", i%50)
					card, shop := fmt.Sprintf("c%02d", i*7919%101%50), fmt.Sprintf("s%d", i%4)
					appended(t, log,
						record("impressions", user, fmt.Sprintf(`{"user":%q,"id":"i%d","bid":%d.5,"ts":%d}`, user, i, i%7, at)),
						record("clicks", user, fmt.Sprintf(`{"user":%q,"imp":"i%d","price":%d.5,"ts":%d}`, user, i*i%(i+1), i%9, at)),
						record("shops", shop, fmt.Sprintf(`{"risk":0.%d,"since":%d}`, i%10, at)),
						record("owners", card, fmt.Sprintf(`{"age":%d}`, i)),
						record("payments", card, fmt.Sprintf(`{"card":%q,"shop":%q,"amount":%d.1,"at":%d}`, card, shop, i%37, at-int64(i*31%5000))),
					)
					if i == 200 {
						failsOn(t, log, seed)
					}
				}
				failsOn(t, log, seed+100)
				if r := checked(t, log, "100%"); r.Differences != 0 || r.Outputs == 0 || r.Entries == 0 {
					t.Errorf("seed %d: %+v %+v", seed, r, r.First)
				}
			}
		})
	}
}
