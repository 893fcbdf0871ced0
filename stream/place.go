package stream

// Place returns the partition, of n, that Kafka's default partitioner chooses for key: murmur2 of
// the key, without its sign bit, modulo n (Apache Kafka,
// org.apache.kafka.common.utils.Utils.murmur2).
func Place(key []byte, n int32) int32 {
	return int32(murmur2(key)&0x7fffffff) % n
}

// PlaceRecord returns the partition, of n, for a record with partition ByKey. It hashes the key, or
// the value if there is no key. So a repeated append goes to the same partition as the first one.
func PlaceRecord(r *Record, n int32) int32 {
	if r.Key != nil {
		return Place(r.Key, n)
	}
	return Place(r.Value, n)
}

// murmur2 is Austin Appleby's MurmurHash2 (32 bit) with Kafka's seed.
func murmur2(data []byte) uint32 {
	const seed, m, r = 0x9747b28c, 0x5bd1e995, 24
	h := uint32(seed) ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16 | uint32(data[3])<<24
		k *= m
		k ^= k >> r
		h = h*m ^ k*m
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(data[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
