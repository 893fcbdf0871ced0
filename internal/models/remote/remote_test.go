package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/internal/test/servertest"
	"github.com/afterbay/afterbay/model"
)

var forms = map[string]Options{
	"grpc":   {URL: "grpc://"},
	"binary": {URL: "http://"},
	"json":   {URL: "http://", JSON: true},
}

var twoNumbers = []model.Input{{Name: "a", Type: model.Number}, {Name: "b", Type: model.Number}}

// at returns the options of a form for a model of the server there.
func (o Options) at(host, name string) Options {
	o.URL += host
	o.Model, o.Timeout = name, 20*time.Second
	o.Inputs, o.Outputs = twoNumbers, []model.Output{{Name: "sum", Size: 1}}
	return o
}

func loadFrom(t testing.TB, o Options) *Model {
	t.Helper()
	m, err := Load(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func predict(m *Model, values ...float64) ([]float32, error) {
	rows := model.Rows{Width: 2, Values: values}
	scores := make([]float32, rows.Len())
	return scores, m.Predict(context.Background(), rows, scores)
}

func wantFault(t *testing.T, err error, want Fault, words ...string) {
	t.Helper()
	var fault *Error
	if !errors.As(err, &fault) || fault.Fault != want {
		t.Errorf("error %v, not %v", err, want)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %v\nlacks %q", err, word)
		}
	}
}

func TestEachFormScores(t *testing.T) {
	host := startFake(t)
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			o := form.at(host, "sum")
			o.Calls = 3
			m := loadFrom(t, o)
			if info := m.Info(); !info.Remote || info.Scores() != 1 || info.Width() != 2 {
				t.Errorf("%+v", info)
			}
			var group sync.WaitGroup
			for g := range 8 {
				group.Go(func() {
					for i := range 20 {
						a := float64(float32(g) + 0.1)
						scores, err := predict(m, a, float64(i), 0x1p-100, 0x1p-99)
						if err != nil || scores[0] != float32(a)+float32(i) || scores[1] != 0x3p-100 {
							t.Errorf("%v, %v", scores, err)
						}
					}
				})
			}
			group.Wait()
		})
	}
}

func TestMissingValuesGoWhereTheyCan(t *testing.T) {
	host := startFake(t)
	nan, inf := math.NaN(), math.Inf(1)
	for name, form := range forms {
		m := loadFrom(t, form.at(host, "sum"))
		if name == "json" {
			for word, value := range map[string]float64{"missing": nan, "+Inf": inf} {
				if err := m.Check([]float64{1, value}, nil); err == nil || !strings.Contains(err.Error(), `input "b": it is `+word) {
					t.Errorf("%s: %v", word, err)
				}
			}
			_, err := predict(m, 1, nan)
			wantFault(t, err, Refused, "JSON")
			continue
		}
		if err := m.Check([]float64{nan, inf}, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if scores, err := predict(m, nan, 2, inf, 1); err != nil || scores[0] != 2 || float64(scores[1]) != inf {
			t.Errorf("%s: %v, %v", name, scores, err)
		}
	}
}

func TestTextsAndColumnsAreSent(t *testing.T) {
	host := startFake(t)
	for name, form := range forms {
		o := form.at(host, "sum")
		o.Columns = true
		o.Inputs = []model.Input{{Name: "text", Type: model.String}, {Name: "a", Type: model.Number}, {Name: "box", Type: model.Number, Shape: []int{2, 2}}}
		m := loadFrom(t, o)
		rows := model.Rows{Width: 5, BytesWidth: 1}
		rows.Append([]float64{1, 2, 3, 4, 5}, [][]byte{[]byte("abc")})
		rows.Append([]float64{1, 1, 1, 1, 1}, [][]byte{[]byte("\u20ac\"")})
		scores := make([]float32, 2)
		if err := m.Predict(t.Context(), rows, scores); err != nil || scores[0] != 18 || scores[1] != 9 {
			t.Errorf("%s: %v, %v", name, scores, err)
		}
		if err := m.Check(rows.Values[:5], [][]byte{nil}); err == nil {
			t.Errorf("%s: a missing text passes", name)
		}
		if err := m.Check(rows.Values[:5], [][]byte{{0xff}}); (err != nil) != o.JSON {
			t.Errorf("%s: bytes that are not UTF-8: %v", name, err)
		}
	}
}

func TestMetadataIsCompared(t *testing.T) {
	host := startFake(t)
	for name, form := range forms {
		o := form.at(host, "described")
		o.Outputs, o.Version = nil, "2"
		m := loadFrom(t, o)
		if out := m.Info().Outputs; len(out) != 1 || out[0] != (model.Output{Name: "sum", Size: 1}) {
			t.Errorf("%s: outputs %v", name, out)
		}
		if scores, err := predict(m, 0.5, 2); err != nil || scores[0] != 2.5 {
			t.Errorf("%s: %v, %v", name, scores, err)
		}
		if err := m.Check([]float64{0.5, 2.5}, nil); err == nil || !strings.Contains(err.Error(), `"b": 2.5 is not an integer`) {
			t.Errorf("%s: %v", name, err)
		}
		for word, change := range map[string]func(*Options){
			`version "3"`:                    func(o *Options) { o.Version = "3" },
			`input 1 is "b", but the server`: func(o *Options) { o.Inputs = []model.Input{twoNumbers[1], twoNumbers[0]} },
			`"b" is a string`:                func(o *Options) { o.Inputs = []model.Input{twoNumbers[0], {Name: "b", Type: model.String}} },
			`a row has 3 values, but the server wants shape [-1 1]`: func(o *Options) {
				o.Inputs = []model.Input{twoNumbers[0], {Name: "b", Type: model.Number, Shape: []int{3}}}
			},
			`output "score" is not one`: func(o *Options) { o.Outputs = []model.Output{{Name: "score", Size: 1}} },
			`has 2 scores a row`:        func(o *Options) { o.Outputs = []model.Output{{Name: "sum", Size: 2}} },
		} {
			wrong := form.at(host, "described")
			change(&wrong)
			if _, err := Load(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v\nlacks %s", name, err, word)
			}
		}
		_, err := Load(t.Context(), form.at(host, "absent"))
		wantFault(t, err, Denied, `no model "absent"`)
	}
}

func TestFaultsOfServersAreClearErrors(t *testing.T) {
	host := startFake(t)
	for name, form := range forms {
		for fault, want := range map[string]struct {
			fault Fault
			words []string
		}{
			"500":     {Failed, []string{"division by zero"}},
			"refuse":  {Refused, []string{"rows are too odd"}},
			"busy":    {Unreachable, []string{"loading"}},
			"shape":   {Malformed, []string{"shape [2 1], which is not 1 rows of 1"}},
			"nan":     {Malformed, nil},
			"name":    {Malformed, []string{`output "sum" is not among`}},
			"garbage": {Malformed, nil},
			"huge":    {Malformed, []string{"more than"}},
			"half":    {Unreachable, nil},
		} {
			t.Run(name+"/"+fault, func(t *testing.T) {
				host := host
				if fault == "half" { // by gRPC such a server is at its end
					host = startFake(t)
				}
				_, err := predict(loadFrom(t, form.at(host, fault)), 1, 2)
				wantFault(t, err, want.fault, append(want.words, form.URL+host)...)
			})
		}
		t.Run(name+"/version", func(t *testing.T) {
			o := form.at(host, "version")
			o.Version = "1"
			_, err := predict(loadFrom(t, o), 1, 2)
			wantFault(t, err, Malformed, `version "9" answered for "1"`)
		})
	}
	_, err := predict(loadFrom(t, forms["json"].at(host, "moved")), 1, 2)
	wantFault(t, err, Denied, "307")
}

func TestBatchesThatAreTooLargeAreSplit(t *testing.T) {
	host := startFake(t)
	for name, form := range forms {
		m := loadFrom(t, form.at(host, "small"))
		for range 2 {
			values := make([]float64, 128)
			for i := range values {
				values[i] = float64(i)
			}
			scores, err := predict(m, values...)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for i, score := range scores {
				if score != float32(4*i+1) {
					t.Errorf("%s: row %d: %v", name, i, score)
				}
			}
		}
		if most := m.most.Load(); most != 8 {
			t.Errorf("%s: calls of %d rows", name, most)
		}
	}
}

func TestAnswersOfBinaryTensorsAreWhole(t *testing.T) {
	head := `{"outputs": [{"name": "sum", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": 4}}]}`
	length := strconv.Itoa(len(head))
	if _, err := decode([]byte(head+"1234"), length); err != nil {
		t.Error(err)
	}
	for word, c := range map[string][2]string{
		"4 bytes, where 3 are left":       {head + "123", length},
		"1 bytes behind the last tensor":  {head + "12345", length},
		"4 bytes, where 0 are left":       {head, ""},
		"of -1 bytes":                     {strings.Replace(head, ": 4", ":-1", 1) + "1234", length},
		lengthHeader + ": 999 of":         {head, "999"},
		lengthHeader + ": -1 of":          {head, "-1"},
		"the answer's JSON: ":             {head[1:], ""},
		"invalid character":               {`{"outputs": [{"datatype": "FP32", "shape": [1], "data": [1,]}]}`, ""},
		"an object among":                 {`{"outputs": [{"datatype": "FP32", "shape": [1], "data": [{}]}]}`, ""},
		"<nil> among its values is not a": {`{"outputs": [{"datatype": "FP32", "shape": [1], "data": [null]}]}`, ""},
	} {
		if _, err := decode([]byte(c[0]), c[1]); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v\nlacks %q", err, word)
		}
	}
}

func TestLongTextsKeepTheirEnd(t *testing.T) {
	text := brief("Traceback\n" + strings.Repeat("  File \u20ac\n", 100_000) + "ValueError: 5\n")
	if !strings.HasPrefix(text, "Traceback File") || !strings.HasSuffix(text, " ValueError: 5") || utf8.RuneCountInString(text) > detailMax+5 {
		t.Error(text)
	}
}

func TestServerThatNeverAnswersIsLate(t *testing.T) {
	host := startFake(t)
	for name, form := range forms {
		o := form.at(host, "never")
		m := loadFrom(t, o)
		m.options.Timeout = 50 * time.Millisecond
		_, err := predict(m, 1, 2)
		wantFault(t, err, Late)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v is no deadline", name, err)
		}
		mute := form.at(host, "mute")
		mute.Timeout = 50 * time.Millisecond
		_, err = Load(t.Context(), mute)
		wantFault(t, err, Late, "metadata")
		m.options.Timeout = 20 * time.Second
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		if err := m.Predict(ctx, model.Rows{Width: 2, Values: []float64{1, 2}}, make([]float32, 1)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, not the caller's own", name, err)
		}
	}
}

func TestCallsBeyondTheBoundWait(t *testing.T) {
	o := forms["grpc"].at(startFake(t), "never")
	o.Calls = 1
	m := loadFrom(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- m.Predict(ctx, model.Rows{Width: 2, Values: []float64{1, 2}}, make([]float32, 1))
	}()
	for len(m.slots) == 0 {
		time.Sleep(time.Millisecond)
	}
	short, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if err := m.Predict(short, model.Rows{Width: 2, Values: []float64{1, 2}}, make([]float32, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, not the deadline", err)
	}
	cancel()
	<-done
}

func TestNobodyThereIsUnreachable(t *testing.T) {
	host := fmt.Sprint("127.0.0.1:", servertest.FreePorts(t, 1)[0])
	for _, form := range forms {
		_, err := Load(t.Context(), form.at(host, "sum"))
		wantFault(t, err, Unreachable, "refused")
	}
}

func TestServerThatComesBackIsAskedAgain(t *testing.T) {
	for name, form := range forms {
		host, end := startFakeAt(t, fmt.Sprint("127.0.0.1:", servertest.FreePorts(t, 1)[0]))
		m := loadFrom(t, form.at(host, "sum"))
		end()
		_, err := predict(m, 1, 2)
		wantFault(t, err, Unreachable)
		if name != "grpc" && !calling.Outage(err) {
			t.Errorf("%s: %v is no outage", name, err)
		}
		startFakeAt(t, host)
		deadline := time.Now().Add(5 * time.Minute)
		for _, err = predict(m, 1, 2); err != nil && time.Now().Before(deadline); _, err = predict(m, 1, 2) {
			time.Sleep(10 * time.Millisecond)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTokensGoByTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(fakeServer().Handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	host := server.Listener.Addr().String()
	for name, form := range forms {
		o := form.at(host, "sum")
		o.URL = strings.Replace(o.URL, "://", "s://", 1)
		if _, err := Load(t.Context(), o); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s: a certificate nobody vouches for: %v", name, err)
		}
		o.TLS, o.Bearer = &tls.Config{RootCAs: roots}, "shut"
		_, err := Load(t.Context(), o)
		wantFault(t, err, Denied, "who are you?")
		o.Bearer = "open"
		if scores, err := predict(loadFrom(t, o), 1, 2); err != nil || scores[0] != 3 {
			t.Errorf("%s: %v, %v", name, scores, err)
		}
	}
}

func TestOptionsAreValidated(t *testing.T) {
	err := Options{URL: "ftp://host", Timeout: -1, Calls: 5000, Columns: true, Tensor: "x"}.Validate()
	for _, word := range []string{"no model", "timeout", "5000 calls", "choose one", "no inputs", "is not a valid URL: use grpc://"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v\nlacks %q", err, word)
		}
	}
	good := Options{URL: "grpc://host:8081", Model: "m", Inputs: twoNumbers}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for word, change := range map[string]func(*Options){
		"in the clear":   func(o *Options) { o.Bearer = "secret" },
		"has a user":     func(o *Options) { o.URL = "grpc://me:secret@host:1" },
		"has a path":     func(o *Options) { o.URL = "grpc://host:1/x" },
		"has no port":    func(o *Options) { o.URL = "grpc://host" },
		"JSON over gRPC": func(o *Options) { o.JSON = true },
		"TLS for grpc":   func(o *Options) { o.TLS = &tls.Config{} },
		"has bytes": func(o *Options) {
			o.URL, o.JSON, o.Inputs = "http://h", true, []model.Input{{Name: "i", Type: model.Bytes}}
		},
	} {
		o := good
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v\nlacks %q", err, word)
		}
	}
}

// BenchmarkCall is a call of 64 rows of 30 numbers, one at a time, with what the
// server in the other process takes.
func BenchmarkCall(b *testing.B) {
	host := startFake(b)
	inputs := make([]model.Input, 30)
	for i := range inputs {
		inputs[i] = model.Input{Name: fmt.Sprintf("f%d", i), Type: model.Number}
	}
	rows := model.Rows{Width: len(inputs), Values: make([]float64, 64*len(inputs))}
	for i := range rows.Values {
		rows.Values[i] = float64(i) * 0.37
	}
	scores := make([]float32, 64)
	for _, name := range []string{"grpc", "binary", "json"} {
		b.Run(name, func(b *testing.B) {
			o := forms[name].at(host, "sum")
			o.Inputs = inputs
			m := loadFrom(b, o)
			b.ReportAllocs()
			for b.Loop() {
				if err := m.Predict(b.Context(), rows, scores); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
