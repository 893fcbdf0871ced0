package row_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/sinks/row"
)

// fields returns those that a line lists, such as "id string, at optional int".
func fields(line string) (list []row.Field) {
	for text := range strings.SplitSeq(line, ", ") {
		name, of, _ := strings.Cut(text, " ")
		t, err := value.ReadType(of)
		if err != nil {
			panic(err)
		}
		list = append(list, row.Field{Name: name, Type: t})
	}
	return list
}

const all = "id string, at time, n optional int, m int, embed number[2], a.b number"

var constants = map[string]expression.Constant{"first": {Value: int64(1)}, "rank": {Table: map[string]any{"low": int64(1), "high": int64(2)}}}

func TestVersionsThatDoNotOrderRecordsAreRefused(t *testing.T) {
	for _, c := range [][2]string{
		{"id", "column 1: this is of type string: a version is an int, number or time"},
		{"embed", "of type number[2]"},
		{"m == 1", "of type bool"},
		{"n", "column 1: this may be absent: a version is always there (write a default: ... ?? 0)"},
		{"m + n", "column 5: n may be absent"},
		{"first + 1", "the same for all records"},
		{"m + firs", "column 5: unknown name firs (did you mean first?)"},
		{"m +", "column "},
	} {
		if v, err := row.Compile(c[0], fields(all), constants); err == nil || v != nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v, want %s", c[0], err, c[1])
		}
	}
	for _, good := range []string{"at", "m", "a.b", "(n ?? 0) + first", "rank[id] ?? 0", "m > 3 ? 1.5 : 0"} {
		if _, err := row.Compile(good, fields(all), constants); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}

func TestVersionOfAFieldIsThatFieldAndOthersAreComputed(t *testing.T) {
	for _, c := range []struct {
		version, fields string
		place           int
		want            string // with m 4 and n absent, and with m 5 and n 3
	}{
		{"m", "id string, m int", 1, "4 5"},
		{"m", "id string", 1, "4 5"},
		{"(n ?? 0) * 2 - m", "m int, id string", 2, "-4 1"},
		{"", "m int", -1, ""},
	} {
		var v *row.Version
		if c.version != "" {
			compiled, err := row.Compile(c.version, fields(all), constants)
			if err != nil {
				t.Fatal(err)
			}
			v = compiled
		}
		r, err := row.NewReader(fields(c.fields), v)
		if err != nil {
			t.Fatal(err)
		}
		if r.Version != c.place {
			t.Errorf("%s of %s is at %d, want %d", c.version, c.fields, r.Version, c.place)
		}
		if c.place < 0 {
			continue
		}
		rows := r.NewRows(1)
		var got []string
		for _, text := range []string{`{"id":"a","m":4}`, `{"id":"b","n":3,"m":5}`} {
			if err := r.Read([]byte(text), &rows[0]); err != nil {
				t.Error(err)
			}
			got = append(got, fmt.Sprint(rows[0].Int(r.Slots[r.Version])))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s of %s: %v, want %s", c.version, c.fields, got, c.want)
		}
	}
}

func TestRecordWithoutItsVersionIsRefused(t *testing.T) {
	v, _ := row.Compile("10 / m", fields(all), nil)
	r, err := row.NewReader(fields("id string"), v)
	if err != nil {
		t.Fatal(err)
	}
	rows := r.NewRows(1)
	for text, want := range map[string]string{`{"id":"a"}`: `field "m"`, `{"id":"a","m":0}`: "version: ", `{"id":1,"m":1}`: `field "id"`, `{"id":"a","m":1}`: ""} {
		if err := r.Read([]byte(text), &rows[0]); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := row.NewReader(fields("id int"), v); err == nil || !strings.Contains(err.Error(), `"id" is of type int, and of type string elsewhere`) {
		t.Errorf("a field of two types: %v", err)
	}
}

func ExampleCompile() {
	text, number := value.Type{Kind: value.String}, value.Type{Kind: value.Int}
	v, _ := row.Compile("revision * 10 + priority", []row.Field{{Name: "id", Type: text}, {Name: "revision", Type: number}, {Name: "priority", Type: number}}, nil)
	r, _ := row.NewReader([]row.Field{{Name: "id", Type: text}}, v)
	rows := r.NewRows(1)
	if err := r.Read([]byte(`{"id":"a","revision":3,"priority":2}`), &rows[0]); err != nil {
		fmt.Println(err)
	}
	fmt.Println(rows[0].Text(r.Slots[0]), rows[0].Int(r.Slots[r.Version]))

	_, err := row.Compile("id", []row.Field{{Name: "id", Type: text}}, nil)
	fmt.Println(err)
	// Output:
	// a 32
	// column 1: this is of type string: a version is an int, number or time
}
