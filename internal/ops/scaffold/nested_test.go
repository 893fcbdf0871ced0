package scaffold_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/ops/scaffold"
)

// declares reports the lines that a pipeline lacks.
func declares(t *testing.T, found *scaffold.Findings, lines ...string) {
	t.Helper()
	text := string(found.Pipeline())
	for _, want := range lines {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

func TestNestedEventsAreReadByPaths(t *testing.T) {
	found := infer(t, events(120, func(i int) string {
		note := ""
		if i%4 == 0 {
			note = `,"coupon":{"code":"X"}`
		}
		return fmt.Sprintf(`{"order":"o%d","customer":{"id":"c%d","address":{"city":"%s"}},"device":{"os":"ios","screen-size":{"w":%d}},"tags":["a","b"],"scores":[1,2.5],`+
			`"items":[{"sku":"s%d","price":%d.25,"gift":true},{"sku":"t","price":2}],"counts":{"k%d":1,"n%d":2},"mixed":[1,"a"],"at":"2026-01-20T10:%02d:%02dZ"%s}`,
			i, i%9, []string{"Bern", "Oslo"}[i%2], i%7, i, i%50, i, i%40, i/60, i%60, note)
	}), scaffold.Options{})
	if got := role(found); got != "customer_id at/rfc3339 order device_screen_size_w customer_address_city" {
		t.Error(got)
	}
	declares(t, found,
		"  key: customer_id ", "customer_id: {path: customer.id, type: string}", "device_os: {path: device.os, type: string}",
		"device_screen_size_w: {path: device.screen-size.w, type: int}", "coupon_code: {path: coupon.code, type: optional string}",
		"    tags: string[] ", "    scores: number[] ", "items_sku: {path: 'items[].sku', type: 'string[]'}", "items_price: {path: 'items[].price', type: 'number[]'}",
		`# left out: "items" `, "read items: {path: items, type: 'raw[]'}, and add a step `each`", `# left out: "counts" `, "names that differ from event to event",
		`# left out: "mixed" `, "kinds_of_customer_address_city: {value: customer_address_city, windows: [1h], aggregates: [distinct]}")
	if strings.Contains(string(found.Pipeline()), "gift") {
		t.Error("a member that some elements lack is a dead letter")
	}
	if got := found.KeyPath(); got != "customer.id" {
		t.Error(got)
	}
	for _, key := range []string{"customer_id", "customer.id"} {
		if got := role(infer(t, events(60, func(i int) string {
			return fmt.Sprintf(`{"customer":{"id":"c%d"},"user":"u%d"}`, i%9, i%3)
		}), scaffold.Options{Key: key})); !strings.HasPrefix(got, "customer_id ") {
			t.Errorf("--key %s: %s", key, got)
		}
	}
}

func TestEnvelopesAreRecognised(t *testing.T) {
	change := func(i int) string {
		row := fmt.Sprintf(`{"id":%d,"tier":"%s","spent":%d.5}`, i%8, []string{"free", "gold"}[i%2], i%60)
		op, before, after := "u", "null", row
		if i%10 == 9 {
			op, before, after = "d", row, "null"
		}
		return fmt.Sprintf(`{"op":"%s","before":%s,"after":%s,"source":{"ts_ms":%d,"db":"shop"},"ts_ms":1}`, op, before, after, 1_767_261_600_000+int64(i)*1000)
	}
	debezium := []string{
		"  envelope: debezium ", "  repartition: 4 ", "  key: id ", "time: {field: source_ts_ms, unit: ms,", "op: {from: envelope, type: string}",
		"source_ts_ms: {from: envelope, path: source.ts_ms, type: int}", "    tier: string ", "value: [meta.id, id, spent, op, ",
	}
	found := infer(t, events(100, change), scaffold.Options{})
	declares(t, found, debezium...)
	if found.KeyPath() != "after.id" {
		t.Error(found.KeyPath())
	}
	found = infer(t, events(100, func(i int) string { return `{"schema":{},"payload":` + change(i) + `}` }), scaffold.Options{})
	declares(t, found, debezium...)
	if found.KeyPath() != "payload.after.id" {
		t.Error(found.KeyPath())
	}
	found = infer(t, events(100, func(i int) string {
		version := "1.0"
		if i == 50 {
			version = "0.3"
		}
		return fmt.Sprintf(`{"specversion":"%s","id":"e%d","source":"/shop","type":"order","time":"2026-01-20T10:00:%02dZ","data":{"customer":"c%d","total":%d,"id":"x%[4]d"}}`, version, i, i%60, i%7, i%50)
	}), scaffold.Options{})
	declares(t, found, "  envelope: cloudevents ", "  key: customer ", "time: {field: time, unit: rfc3339,", "time: {from: envelope, type: time}",
		"envelope_id: {from: envelope, path: id, type: string}", "# dedupe: {id: envelope_id,", "    total: int ")
	if found.Events != 99 || found.Malformed != 1 || found.KeyPath() != "data.customer" {
		t.Error(found.Events, found.Malformed, found.KeyPath())
	}
	if other := infer(t, events(100, func(i int) string {
		return fmt.Sprintf(`{"op":"u","after":{"user":"u%d"},"user":"u%[1]d"}`, i%5)
	}), scaffold.Options{}); other.Envelope != "" {
		t.Error("an event with members op and after alone is not a change event")
	}
}
