package kafka

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/stream"
)

// TestTimesComeBackToTheMicrosecond writes and reads records. A header of somebody else does not
// change the time that a broker says.
func TestTimesComeBackToTheMicrosecond(t *testing.T) {
	for _, us := range []int64{-9e15, -1001, -1000, -1, 0, 1, 999, 1000, 1_767_261_630_000_001, 9e15} {
		var out kgo.Record
		encode(&out, &stream.Record{Time: time.UnixMicro(us)}, nil)
		if got := decode(&out); got.Time.UnixMicro() != us || len(got.Headers) > 0 {
			t.Errorf("%d is %d, with %d headers", us, got.Time.UnixMicro(), len(got.Headers))
		}
	}
	broker := time.UnixMilli(1_767_261_630_000)
	for _, us := range []int64{-1 << 63, -1, 1, broker.UnixMicro() - 1} {
		r := kgo.Record{Timestamp: broker, Headers: []kgo.RecordHeader{{Key: timeHeader, Value: binary.BigEndian.AppendUint64(nil, uint64(us))}}}
		if got := decode(&r); !got.Time.Equal(broker) {
			t.Errorf("%d us of a header make %v of the time of the broker", us, got.Time)
		}
	}
}
