// Package wire is the words of gateways: the ids of clients and their events,
// how events and results lie in the log, the frames of protocol afterbay.v1,
// and cursors. It is pure.
package wire

import (
	"fmt"
	"strings"

	"github.com/afterbay/afterbay/stream"
)

// IDBytesMax is how long an id of a tenant, client or event may be.
const IDBytesMax = 128

// ValidID reports whether an id is 1 to 128 bytes of [A-Za-z0-9._:@-].
func ValidID(id string) bool {
	if len(id) == 0 || len(id) > IDBytesMax {
		return false
	}
	for i := range len(id) {
		if !idBytes[id[i]] {
			return false
		}
	}
	return true
}

var idBytes = func() (valid [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:@-") {
		valid[c] = true
	}
	return valid
}()

// CheckID returns what is wrong with an id; name says of what it is.
func CheckID(name, id string) error {
	if ValidID(id) {
		return nil
	}
	return fmt.Errorf("%s %.160q: use 1 to 128 of the characters A-Z a-z 0-9 . _ : @ -", name, id)
}

// Key returns the key of a client's records in every topic of a gateway, so that
// one partition owns the client. No id has a slash.
func Key(tenant, client string) string { return tenant + "/" + client }

// PartitionOf returns the partition, of n, that owns a client in every topic of
// a gateway, on every engine.
func PartitionOf(tenant, client string, n int32) int32 {
	return stream.Place([]byte(Key(tenant, client)), n)
}

// ParseClientEvent returns the ids that a value of header.ClientEvent has; ok is
// false where it is none.
func ParseClientEvent(value string) (tenant, client, id string, ok bool) {
	tenant, rest, _ := strings.Cut(value, "/")
	client, id, _ = strings.Cut(rest, "/")
	return tenant, client, id, ValidID(tenant) && ValidID(client) && ValidID(id)
}
