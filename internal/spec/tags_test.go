package spec_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/spec"
)

type mode string

// each has a field of each type.
type each struct {
	Path    string            `field:"path" path:"true" required:"true" example:"/tmp/x" help:"a file" affects:"nothing"`
	Mode    mode              `field:"mode" choice:"append|replace" default:"append" example:"replace" help:"how"`
	Text    string            `field:"text" default:"it's" example:"x" help:"a text"`
	Secret  string            `field:"token" secret:"path" example:"${TOKEN}" help:"a secret" absent:"no token"`
	Sync    bool              `field:"sync" example:"true" help:"sync" affects:"state"`
	Flush   bool              `field:"flush" default:"true" example:"false" help:"flush"`
	Rows    int               `field:"rows" min:"1" max:"2000" default:"100" example:"10" help:"rows"`
	Bytes   int               `field:"bytes" unit:"bytes" min:"1KiB" max:"1MiB" default:"64KiB" example:"2KiB" help:"bytes"`
	Share   float64           `field:"share" min:"0" max:"1" default:"0.5" example:"0" help:"a share"`
	Any     float64           `field:"any" example:"-7.5" help:"any number"`
	Wait    time.Duration     `field:"wait" min:"10ms" max:"1m" default:"1s" example:"2s" help:"how long"`
	Tags    []string          `field:"tags" example:"[a, b]" help:"texts"`
	Labels  map[string]string `field:"labels" example:"{b: x, a: y}" help:"names and texts"`
	Inner   inner             `field:"inner" example:"{depth: 2}" help:"more" absent:"as below"`
	Maybe   *inner            `field:"maybe" example:"{depth: 2}" help:"more"`
	Skipped int               `field:"-"`
	made    int
}

type inner struct {
	Depth int `field:"depth" default:"7" example:"2" help:"how deep"`
}

// read reads a text as a struct, and returns the places of what is wrong.
func read(t *testing.T, text string, into any, folder string) (found []string) {
	t.Helper()
	table, err := spec.TableOf(into, spec.Outputs)
	if err != nil {
		t.Fatal(err)
	}
	s := spec.NewSource("f.yaml", text)
	documents, errs := spec.ReadDocuments(s, &spec.PipelineFiles)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	lookup := func(name string) (string, bool) { return "hush", name == "TOKEN" }
	r := &spec.Reader{Source: s, Places: map[string]spec.Place{}, Lookup: lookup, Folder: folder}
	table.Read(r, documents[0].Root, "", &into)
	for _, e := range r.Errors {
		found = append(found, fmt.Sprintf("%d:%d %s: %s", e.Line, e.Column, e.Field, e.Message))
	}
	return found
}

// printed returns the fingerprint text of a struct.
func printed(t *testing.T, of any, least spec.Affects) string {
	t.Helper()
	table, err := spec.TableOf(of, spec.Outputs)
	if err != nil {
		t.Fatal(err)
	}
	p := &spec.Printer{Least: least}
	table.Print(p, "", &of)
	return p.Text()
}

func TestTagsReadEachType(t *testing.T) {
	got := each{made: 3}
	if found := read(t, "path: x.ndjson\n", &got, "folder"); found != nil {
		t.Error(found)
	}
	defaults := each{
		Path: "folder/x.ndjson", Mode: "append", Text: "it's", Flush: true, Rows: 100, Bytes: 64 << 10, Share: 0.5, Wait: time.Second, Inner: inner{7}, made: 3,
	}
	if diff := cmp.Diff(defaults, got, cmp.AllowUnexported(each{})); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	if text := printed(t, &got, spec.Outputs); text != "" {
		t.Errorf("defaults have the text %q", text)
	}
	const all = "path: /x\nmode: replace\ntext: other\ntoken: ${TOKEN}\nsync: true\nflush: false\nrows: 1\nbytes: 1024\nshare: 0\nany: -2\nwait: 1m\n" +
		"tags: [a, b]\nlabels: {b: x, a: y}\ninner: {depth: 0}\nmaybe: {depth: 9}\n"
	got = each{}
	if found := read(t, all, &got, ""); found != nil {
		t.Error(found)
	}
	want := each{
		Path: "/x", Mode: "replace", Text: "other", Secret: "hush", Sync: true, Rows: 1, Bytes: 1024, Any: -2, Wait: time.Minute,
		Tags: []string{"a", "b"}, Labels: map[string]string{"a": "y", "b": "x"}, Maybe: &inner{9},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(each{})); diff != "" {
		t.Errorf("all fields (-want +got):\n%s", diff)
	}
	const text = "mode=replace\ntext=other\ntoken=hush\nsync=true\nflush=false\nrows=1\nbytes=1024\nshare=0\nany=-2\nwait=1m\ntags[0]=a\ntags[1]=b\n" +
		"labels[\"a\"]=y\nlabels[\"b\"]=x\ninner.depth=0\nmaybe.depth=9\n"
	if diff := cmp.Diff(text, printed(t, &got, spec.Outputs)); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	if text := printed(t, &got, spec.State); text != "sync=true\n" {
		t.Errorf("text of what affects state is %q", text)
	}
	got = each{}
	if read(t, "path: /x\nmaybe: {depth: 7}\n", &got, ""); got.Maybe == nil || printed(t, &got, spec.Outputs) != "maybe={}\n" {
		t.Errorf("a struct of defaults is %+v, its text %q", got.Maybe, printed(t, &got, spec.Outputs))
	}
}

func TestTagsRefuseValuesWithTheirPlace(t *testing.T) {
	for text, want := range map[string]string{
		"mode: x\n":                    "1:7 mode: \"x\" is not one of append or replace",
		"path: 1\npat: 2\n":            "2:1 pat: unknown word \"pat\"",
		"path: a\npath: b\n":           "2:1 path: \"path\" is written twice",
		"rows: 0\n":                    "1:7 rows: \"0\" is out of range",
		"rows: '5'\n":                  "1:7 rows: must be a number, is text",
		"bytes: 2MiB\n":                "1:8 bytes: \"2MiB\" is out of range",
		"share: 1.5\n":                 "1:8 share: \"1.5\" is out of range",
		"wait: 1ms\n":                  "1:7 wait: \"1ms\" is out of range",
		"token: hush\n":                "1:8 token: a secret has no place in the file",
		"tags: a\n":                    "1:7 tags: must be a list, is a single value",
		"flush: maybe\n":               "1:8 flush: \"maybe\" is not `true` or `false`",
		"sync: false\n":                "1:7 sync: \"false\" is not `true`",
		"labels: {a: }\n":              "1:10 labels.a: has no value",
		"inner: {deep: 1}\n":           "1:9 inner.deep: unknown word \"deep\"",
		"maybe: {depth: 9999999999}\n": "1:16 maybe.depth: \"9999999999\" is out of range",
		"rows: 5\n":                    "1:1 : `path` is missing",
	} {
		if found := read(t, text, &each{}, ""); len(found) == 0 || found[0] != want {
			t.Errorf("%q: %q, want %q", text, found, want)
		}
	}
}

// TestTagsSayWhatFieldsAre sees what the reference page and the schema are made of.
func TestTagsSayWhatFieldsAre(t *testing.T) {
	table, err := spec.TableOf(&each{}, spec.Nothing)
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, w := range table.Shape.Words() {
		rows = append(rows, fmt.Sprintf("%s|%v|%d|%s|%s|%s|%s|%s|%v", w.Name, w.Required, w.Shape.Kind, w.Shape.Low, w.Shape.High, strings.Join(w.Shape.Allowed, ","), w.Absent, w.Help, w.Affects))
	}
	want := []string{
		"path|true|0|||||a file|nothing", "mode|false|1|||append,replace|append|how|nothing", "text|false|0||||it's|a text|nothing",
		fmt.Sprintf("token|false|%d||||no token|a secret|nothing", spec.ASecret), fmt.Sprintf("sync|false|%d||||none|sync|state", spec.ATrue), fmt.Sprintf("flush|false|%d||||true|flush|nothing", spec.ASwitch),
		fmt.Sprintf("rows|false|%d|1|2,000||100|rows|nothing", spec.AWhole), fmt.Sprintf("bytes|false|%d|1KiB|1MiB||64KiB|bytes|nothing", spec.ASize),
		fmt.Sprintf("share|false|%d|0|1||0.5|a share|nothing", spec.ANumber), fmt.Sprintf("any|false|%d||||none|any number|nothing", spec.ANumber),
		fmt.Sprintf("wait|false|%d|10ms|1m||1s|how long|nothing", spec.ADuration), fmt.Sprintf("tags|false|%d||||none|texts|nothing", spec.AList),
		fmt.Sprintf("labels|false|%d||||none|names and texts|nothing", spec.ANames), fmt.Sprintf("inner|false|%d||||as below|more|nothing", spec.AMapping), fmt.Sprintf("maybe|false|%d||||none|more|nothing", spec.AMapping),
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

func TestWrongTagsAreErrorsOfTheType(t *testing.T) {
	refuses(t, map[string]any{
		"is not a pointer to a struct": each{},
		"a nil *spec_test.each is":     (*each)(nil),
		"has no fields":                &struct{ hidden int }{},
		"X: the tag field is \"\"":     &struct{ X string }{},
		"use lower case": &struct {
			X string `field:"Path" help:"x" example:"x"`
		}{},
		"help and example are needed": &struct {
			X string `field:"x" example:"x"`
		}{},
		"a second field is named x": &struct {
			X string `field:"x" help:"x" example:"x"`
			Y string `field:"x" help:"x" example:"x"`
		}{},
		"did you mean required": &struct {
			X string `field:"x" help:"x" example:"x" requird:"true"`
		}{},
		"the tag required is \"yes\"": &struct {
			X string `field:"x" help:"x" example:"x" required:"yes"`
		}{},
		"the tag path is \"yes\"": &struct {
			X string `field:"x" help:"x" example:"x" path:"yes"`
		}{},
		"the tag or of x names \"y\"": &struct {
			X string `field:"x" help:"x" example:"x" or:"y"`
		}{},
		"required has no default": &struct {
			X string `field:"x" help:"x" example:"x" required:"true" default:"y"`
		}{},
		"example: \"ten\" is not a whole number": &struct {
			X int `field:"x" help:"x" example:"ten"`
		}{},
		"example: \"11\" is out of range": &struct {
			X int `field:"x" help:"x" example:"11" max:"10"`
		}{},
		"default: \"c\" is not one of a or b": &struct {
			X string `field:"x" help:"x" example:"a" choice:"a|b" default:"c"`
		}{},
		"the tag min is \"soon\"": &struct {
			X time.Duration `field:"x" help:"x" example:"1s" min:"soon"`
		}{},
		"min 5 is above max 4": &struct {
			X int `field:"x" help:"x" example:"1" min:"5" max:"4"`
		}{},
		"the tag min says nothing about a string": &struct {
			X string `field:"x" help:"x" example:"x" min:"5"`
		}{},
		"the tag default says nothing about a []string": &struct {
			X []string `field:"x" help:"x" example:"[x]" default:"[]"`
		}{},
	})
}

func TestWrongTypesAndValuesAreErrorsOfTheType(t *testing.T) {
	type loop struct {
		Again *struct {
			More []int `field:"more" example:"[1]" help:"x"`
		} `field:"again" example:"{}" help:"x"`
	}
	refuses(t, map[string]any{
		"the tag unit is \"rows\"": &struct {
			X int `field:"x" help:"x" example:"1" unit:"rows"`
		}{},
		"the tag affects is \"all\"": &struct {
			X int `field:"x" help:"x" example:"1" affects:"all"`
		}{},
		"a secret has no default": &struct {
			X string `field:"x" help:"x" example:"${X}" secret:"true" default:"x"`
		}{},
		"an embedded struct":                &struct{ inner }{},
		"a field of type []int: use string": &loop{},
		"a field of type chan int": &struct {
			X chan int `field:"x" help:"x" example:"1"`
		}{},
	})
}

func TestTagsThatGoDoesNotReadAreErrors(t *testing.T) {
	refuses(t, map[string]any{
		"struct tags are not read behind `example:\"x\"`": withTag(`field:"x" help:"x" example:"x", required:"true"`),
		"struct tags are not read behind `example:\"y\"`": withTag(`field:"x" help:"x" example:"y" required:true`),
		"the tag path occurs twice":                       withTag(`field:"x" help:"x" example:"1" path:"true" path:"true"`),
		"the tag secret is empty": &struct {
			X string `field:"x" help:"x" example:"${X}" secret:""`
		}{},
		"hidden: a field with tags is exported": &struct {
			X      string `field:"x" help:"x" example:"x"`
			hidden string `field:"hidden" help:"x" example:"x"`
		}{},
		"the tag help is one line": &struct {
			X string `field:"x" help:"one\n## two" example:"x"`
		}{},
	})
}

// withTag returns a struct with a tag that go vet refuses, and a compiler does not.
func withTag(tag reflect.StructTag) any {
	return reflect.New(reflect.StructOf([]reflect.StructField{{Name: "X", Type: reflect.TypeFor[string](), Tag: tag}})).Interface()
}

func TestTagsThatContradictEachOtherAreErrors(t *testing.T) {
	type loop struct {
		Left  *loop `field:"left" help:"x" example:"{}"`
		Right *loop `field:"right" help:"x" example:"{}"`
	}
	refuses(t, map[string]any{
		"the tags choice and secret exclude each other": &struct {
			X string `field:"x" help:"x" example:"${X}" secret:"true" choice:"a|b"`
		}{},
		"the tags choice and path exclude each other": &struct {
			X string `field:"x" help:"x" example:"a" path:"true" choice:"a|b"`
		}{},
		"the tag choice has a word that is empty or there twice": &struct {
			X string `field:"x" help:"x" example:"a" choice:"a|b|a"`
		}{},
		"the tag secret of x names \"yes\", which is not another field": &struct {
			X string `field:"x" help:"x" example:"${X}" secret:"yes"`
		}{},
		"default: an environment variable cannot be a default": &struct {
			X string `field:"x" help:"x" example:"a" default:"${HOME}/x"`
		}{},
		"a bool that is required says nothing": &struct {
			X bool `field:"x" help:"x" example:"true" required:"true"`
		}{},
		"is within itself": &loop{},
	})
}

// TestADefaultPathIsBesideTheFile sees that a path that a file leaves out is joined with
// the same folder as one that it has, and that the folder is in no text.
func TestADefaultPathIsBesideTheFile(t *testing.T) {
	type rows struct {
		Path string `field:"path" path:"true" default:"data/rows.json" example:"a.json" help:"a file"`
		Own  bool   `field:"own" default:"false" example:"true" help:"whether"`
	}
	var left, written rows
	for text, into := range map[string]*rows{"own: false\n": &left, "path: data/rows.json\n": &written} {
		if found := read(t, text, into, "/folder"); found != nil {
			t.Errorf("%q: %q", text, found)
		}
	}
	if left.Path != "/folder/data/rows.json" || left != written {
		t.Errorf("a path that is left out is %q, one that is written is %q", left.Path, written.Path)
	}
	if text := printed(t, &left, spec.Outputs); text != "" {
		t.Errorf("defaults have the text %q", text)
	}
	var other rows
	read(t, "path: other/users.json\nown: true\n", &other, "/folder")
	if text := printed(t, &other, spec.Outputs); text != "path=users.json\nown=true\n" {
		t.Errorf("the text of a path is %q", text)
	}
}

// refuses sees that structs have no table, and why.
func refuses(t *testing.T, wrong map[string]any) {
	t.Helper()
	for want, v := range wrong {
		if _, err := spec.TableOf(v, spec.Outputs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: %v, want %q", v, err, want)
		}
	}
}

func TestTagsOfOtherPackagesAreLeftAlone(t *testing.T) {
	v := &struct {
		X string `field:"x" help:"x" example:"x" json:"x" yaml:"x" xml:"x" toml:"x" env:"X" db:"x" mapstructure:"x" validate:"x" bson:"x" form:"x"`
	}{}
	if _, err := spec.TableOf(v, spec.Outputs); err != nil {
		t.Error(err)
	}
}

func TestFieldsMayHaveToSayWhatTheyAffect(t *testing.T) {
	unsaid := &struct {
		X string `field:"x" help:"x" example:"x"`
	}{}
	if _, err := spec.TableOf(unsaid, 0); err == nil || !strings.Contains(err.Error(), "the tag affects is needed") {
		t.Errorf("a field that does not say what it affects: %v", err)
	}
	said := &struct {
		X inner `field:"x" help:"x" example:"{depth: 1}" affects:"nothing"`
	}{X: inner{1}}
	table, err := spec.TableOf(said, 0)
	if err != nil {
		t.Fatal(err)
	}
	if of := table.Shape.Words()[0].Shape.Words()[0]; of.Affects != spec.Nothing {
		t.Errorf("a field within one that affects nothing affects %v", of.Affects)
	}
}

func TestNumbersOfARangeAreClosed(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{{0, 1, " from 0 to 1"}, {math.Inf(-1), 5, " up to 5"}, {0.5, math.Inf(1), " from 0.5"}, {math.Inf(-1), math.Inf(1), ""}} {
		shape := spec.NumberFrom(c.low, c.high).Shape
		if got := shape.Range(); got != c.want || !shape.Closed {
			t.Errorf("%v to %v: %q, want %q", c.low, c.high, got, c.want)
		}
	}
}

func TestFieldsMayStandInForEachOther(t *testing.T) {
	type either struct {
		Token string `field:"token" secret:"token_file" or:"token_file" required:"true" example:"${TOKEN}" help:"a secret"`
		File  string `field:"token_file" path:"true" example:"/run/token" help:"a file of it"`
	}
	for text, want := range map[string]string{
		"token: ${TOKEN}\n":                 "",
		"token_file: /x\n":                  "",
		"token: ${TOKEN}\ntoken_file: /x\n": "2:1 token_file: `token` and `token_file` exclude each other",
		"token: ${NONE}\n":                  "1:8 token: the environment variable NONE is not set",
	} {
		found := read(t, text, &either{}, "")
		if got := strings.Join(found, "\n"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
