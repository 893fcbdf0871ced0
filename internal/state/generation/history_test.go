package generation

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/stream"
)

// TestRecordsOfGenerationsAreTheirFormat sees that what is stored of a generation keeps its words.
func TestRecordsOfGenerationsAreTheirFormat(t *testing.T) {
	at := time.Unix(1, 0).UTC()
	begun := &Begun{
		Pipeline: "fraud", Generation: 2, Fingerprint: "new", Models: []string{"fraud@2 sha256:ab"}, Group: "fraud", Was: "old", From: []stream.Offset{1}, To: []stream.Offset{2},
		Input: "payments", Outputs: []string{"decisions"}, Queues: true, Time: at, State: "fraud", Start: []stream.Offset{1}, Into: map[string]string{"decisions": "again"},
	}
	for _, test := range []struct {
		entry entry
		want  string
	}{
		{entry{Begun: begun}, `{"begun":{"pipeline":"fraud","generation":2,"fingerprint":"new","models":["fraud@2 sha256:ab"],"group":"fraud","was":"old","from":[1],"to":[2],` +
			`"input":"payments","outputs":["decisions"],"queues":true,"time":"1970-01-01T00:00:01Z","state":"fraud","start":[1],"into":{"decisions":"again"}}}`},
		{entry{Live: &Live{Generation: 2, Partition: 1, Offset: 7, Time: at}}, `{"live":{"generation":2,"partition":1,"offset":7,"time":"1970-01-01T00:00:01Z"}}`},
		{entry{Share: &Share{Candidate: "fraud@4", Generation: 2, Below: 9, Partition: 1, Offset: 7, Time: at}}, `{"share":{"candidate":"fraud@4","generation":2,"below":9,"partition":1,"offset":7,"time":"1970-01-01T00:00:01Z"}}`},
	} {
		r := test.entry.record(stream.Partition{Topic: Topic("fraud")})
		if got := string(r.Value); got != test.want {
			t.Errorf("the record is %s\nwant %s", got, test.want)
		}
		read, err := parse(&r)
		if err != nil || cmp.Diff(test.entry, read) != "" {
			t.Errorf("it is read as another: %v\n%s", err, cmp.Diff(test.entry, read))
		}
	}
}
