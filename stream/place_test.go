package stream

import (
	"encoding/binary"
	"testing"
)

// The vectors are those of Apache Kafka's own test of its partitioner
// (org.apache.kafka.common.utils.UtilsTest).
func TestPlaceIsKafkas(t *testing.T) {
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", key, got, want)
		}
		for n := int32(1); n < 50; n++ {
			if got, want := Place([]byte(key), n), want&0x7fffffff%n; got != want {
				t.Errorf("Place(%q, %d) = %d, want %d", key, n, got, want)
			}
		}
	}
}

func TestPlaceStaysInRange(t *testing.T) {
	var seen [7]int
	var key [4]byte
	for i := range uint32(7000) {
		binary.LittleEndian.PutUint32(key[:], i*2654435761)
		seen[Place(key[:], 7)]++
	}
	for partition, n := range seen {
		if n < 700 {
			t.Errorf("partition %d got %d of 7000 keys", partition, n)
		}
	}
}

func TestRecordWithoutKeyIsPlacedByItsValue(t *testing.T) {
	const n = 12
	for _, c := range []struct {
		name   string
		record Record
		want   int32
	}{
		{"key", Record{Key: []byte("foobar"), Value: []byte("21")}, Place([]byte("foobar"), n)},
		{"nil key", Record{Value: []byte("21")}, Place([]byte("21"), n)},
		{"empty key", Record{Key: []byte{}, Value: []byte("21")}, Place(nil, n)},
		{"nothing", Record{}, Place(nil, n)},
	} {
		if got := PlaceRecord(&c.record, n); got != c.want {
			t.Errorf("%s: partition %d, want %d", c.name, got, c.want)
		}
	}
}
