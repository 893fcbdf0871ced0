package zone_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/zone"
)

// TestRulesAreThoseOfTheVersion holds the file that is compiled in to its digest: another
// file gives other features of the same events.
func TestRulesAreThoseOfTheVersion(t *testing.T) {
	text, err := os.ReadFile("zoneinfo-" + zone.Version + ".zip")
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(text)
	if got, want := hex.EncodeToString(digest[:]), "8f55634d05f8bca1f7bc7c69c5933428c69357e0bdf565e5ba224e3f88ff12e8"; got != want {
		t.Errorf("the time zones of %s have the digest %s, want %s", zone.Version, got, want)
	}
}

func TestEveryZoneLoads(t *testing.T) {
	names := zone.Names()
	if len(names) < 500 || !slices.Contains(names, "Europe/Berlin") || !slices.Contains(names, "UTC") || !slices.IsSorted(names) {
		t.Fatalf("%d zones: %q", len(names), names)
	}
	for _, name := range names {
		if _, err := zone.Load(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "Local", "Europe/Berlim", "Europe/", "Europe", "../UTC"} {
		if _, err := zone.Load(name); err == nil || !strings.Contains(err.Error(), "is not a time zone of the IANA database") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestOffsetsOfZones asks for offsets around changes of summer time, in half hours, and
// beyond the last change that the database lists.
func TestOffsetsOfZones(t *testing.T) {
	for _, c := range []struct{ zone, at, want string }{
		{"Europe/Berlin", "2026-03-29T00:59:59Z", "01:59:59+0100"}, {"Europe/Berlin", "2026-03-29T01:00:00Z", "03:00:00+0200"},
		{"Europe/Berlin", "2026-10-25T00:59:59Z", "02:59:59+0200"}, {"Europe/Berlin", "2026-10-25T01:00:00Z", "02:00:00+0100"},
		{"America/New_York", "2090-07-01T12:00:00Z", "08:00:00-0400"}, {"Asia/Kolkata", "2026-01-01T00:00:00Z", "05:30:00+0530"},
		{"Australia/Lord_Howe", "2026-01-01T00:00:00Z", "11:00:00+1100"}, {"Pacific/Apia", "2011-12-30T09:59:59Z", "23:59:59-1000"},
		{"Pacific/Apia", "2011-12-30T10:00:00Z", "00:00:00+1400"}, {"UTC", "1970-01-01T00:00:00Z", "00:00:00+0000"},
	} {
		location, err := zone.Load(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := at.In(location).Format("15:04:05-0700"); got != c.want {
			t.Errorf("%s in %s is %s, want %s", c.at, c.zone, got, c.want)
		}
	}
}
