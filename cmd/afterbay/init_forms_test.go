package main

import (
	"fmt"
	"strings"
	"testing"
)

// form is a sample in one of the forms that events have.
type form struct {
	file string
	line func(i int) string
	head string   // of the file
	want []string // lines of the pipeline
	args []string // of init
}

func forms() map[string]form {
	at := func(i int) string { return fmt.Sprintf("2026-01-20T10:%02d:%02dZ", i/60, i%60) }
	return map[string]form{
		"nested": {"orders.ndjson", func(i int) string {
			return fmt.Sprintf(`{"order":"o%d","user-id":{"value":"u%d"},"device":{"os":"%s"},"items":[{"sku":"a","price":%d.5}],"tags":["x"],"at":"%s"}`, i, i%9, []string{"ios", "web"}[i%2], i%70, at(i))
		}, "", []string{`user_id_value: {path: user-id.value, type: string}`, "items_price: {path: 'items[].price', type: 'number[]'}", "tags: string[]"}, nil},
		"debezium": {"changes.ndjson", func(i int) string {
			row := fmt.Sprintf(`{"id":%d,"tier":"gold","spent":%d}`, i%9, i%70)
			if i%20 == 19 {
				return fmt.Sprintf(`{"payload":{"op":"d","before":%s,"after":null,"source":{"ts_ms":%d}}}`, row, 1_767_261_600_000+i*1000)
			}
			return fmt.Sprintf(`{"payload":{"op":"u","before":null,"after":%s,"source":{"ts_ms":%d}}}`, row, 1_767_261_600_000+i*1000)
		}, "", []string{"envelope: debezium", "repartition: 4", "op: {from: envelope, type: string}"}, nil},
		"cloudevents": {"shop.ndjson", func(i int) string {
			return fmt.Sprintf(`{"specversion":"1.0","id":"e%d","source":"/shop","type":"order","time":"%s","data":{"customer":"c%d","total":%d.25}}`, i, at(i), i%9, i%70)
		}, "", []string{"envelope: cloudevents", "time: {from: envelope, type: time}", "# dedupe: {id: id,"}, nil},
		"semicolons": {"readings.csv", func(i int) string {
			return fmt.Sprintf(`d%d;"a; ""warm"" day";%d,5;%d.5;%s`, i%9, i, i%70, at(i))
		}, "device;note;german;celsius;at\n", []string{"key: device", "german: string", "celsius: number"}, nil},
		"no header": {"lines.csv", func(i int) string {
			return fmt.Sprintf(`%s;d%d;%d.5;"a; day"`, at(i), i%9, i%70)
		}, "", []string{`format: {csv: {delimiter: ";", columns: [c1, c2, c3, c4]}}`, "repartition: 4", "key: c2", "c3: number"}, []string{"--no-header", "--key", "c2"}},
		"tabs": {"readings.tsv", func(i int) string {
			return fmt.Sprintf("d%d\t%d.5\t%s", i%9, i%70, at(i))
		}, "device\tcelsius\tat\n", []string{"key: device", "celsius: number"}, nil},
	}
}

// TestEachFormOfASampleBecomesDecisions types what init says to type next.
func TestEachFormOfASampleBecomesDecisions(t *testing.T) {
	for name, f := range forms() {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			const events = 200
			text := f.head
			for i := range events {
				text += f.line(i) + "\n"
			}
			write(t, f.file, text)
			_, next, _ := strings.Cut(must(t, "", append([]string{"init", "--sample", f.file}, f.args...)...), "; next:\n")
			pipeline := read(t, "pipeline.yaml")
			for _, want := range f.want {
				if !strings.Contains(pipeline, want) {
					t.Errorf("%q is not in\n%s", want, pipeline)
				}
			}
			for line := range strings.Lines(next) {
				args := shellFields(strings.TrimSpace(line))[1:]
				out := must(t, "", args...)
				if args[0] == "try" && !strings.Contains(out, "dead letters  none") || args[0] == "lint" && strings.Contains(out, "warning") {
					t.Errorf("%s says\n%s\n%s", line, out, pipeline)
				}
			}
			if out := must(t, "", "tail", "decisions"); strings.Count(out, "\n") != events {
				t.Errorf("%d decisions\n%s", strings.Count(out, "\n"), pipeline)
			}
		})
	}
}
