// Package wire defines the data formats of gateways: the ids of clients and events, the log records
// of events and results, the frames of protocol afterbay.v1, and cursors. It does no I/O.
package wire

import (
	"fmt"
	"strings"

	"github.com/afterbay/afterbay/stream"
)

// IDBytesMax is the maximum length of the id of a tenant, client or event.
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

// CheckID returns an error if an id is invalid. name is the id's name in the error.
func CheckID(name, id string) error {
	if ValidID(id) {
		return nil
	}
	return fmt.Errorf("%s %.160q: use 1 to 128 of the characters A-Z a-z 0-9 . _ : @ -", name, id)
}

// Key returns the key of a client's records in every topic of a gateway. So one partition owns the
// client. An id never contains a slash.
func Key(tenant, client string) string { return tenant + "/" + client }

// PartitionOf returns which of n partitions owns a client. It is the same in every topic of a
// gateway, and on every log engine.
func PartitionOf(tenant, client string, n int32) int32 {
	return stream.Place([]byte(Key(tenant, client)), n)
}

// ParseClientEvent splits a value of header.ClientEvent into its ids; ok is false if the value is
// invalid.
func ParseClientEvent(value string) (tenant, client, id string, ok bool) {
	tenant, rest, _ := strings.Cut(value, "/")
	client, id, _ = strings.Cut(rest, "/")
	return tenant, client, id, ValidID(tenant) && ValidID(client) && ValidID(id)
}
