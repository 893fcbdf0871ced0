package main

import (
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/lab/demo/fraud"
	"github.com/afterbay/afterbay/internal/models/tree"
	"github.com/afterbay/afterbay/model"
)

// randomRows returns rows with missing values, as numbers and as CSV of the
// columns in some order.
func randomRows(random *rand.Rand, names []string, order []int, n int) (model.Rows, string) {
	rows := model.Rows{Width: len(names)}
	var text strings.Builder
	header := make([]string, len(order))
	for i, column := range order {
		header[i] = "left over"
		if column < len(names) {
			header[i] = names[column]
		}
	}
	text.WriteString(strings.Join(header, ",") + "\n")
	for range n {
		row := make([]float64, len(names))
		for i := range row {
			row[i] = random.NormFloat64() * math.Exp(random.NormFloat64()*4)
			if random.IntN(5) == 0 {
				row[i] = math.NaN()
			}
		}
		cells := make([]string, len(order))
		for i, column := range order {
			cells[i] = "text"
			if column < len(names) {
				cells[i] = strings.Replace(strconv.FormatFloat(row[column], 'g', -1, 64), "NaN", "", 1)
			}
		}
		rows.Values = append(rows.Values, row...)
		text.WriteString(strings.Join(cells, ",") + "\n")
	}
	return rows, text.String()
}

func TestScoresAreTheModelsBitForBit(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	stump, err := os.ReadFile("testdata/stump.ubj")
	if err != nil {
		t.Fatal(err)
	}
	named, err := fraud.Files.ReadFile("fraud.ubj")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, data := range [][]byte{stump, named} {
		write(t, "model.ubj", string(data))
		m, err := tree.Parse("model", data)
		if err != nil {
			t.Fatal(err)
		}
		names := m.Info().Names()
		order := random.Perm(len(names) + 1)
		if len(names) == 0 { // by order
			names = strings.Split("a b c d e f", " ")
			order = []int{0, 1, 2, 3, 4, 5}
		}
		rows, text := randomRows(random, names, order, 3000)
		margins, scores := make([]float32, rows.Len()), make([]float32, rows.Len())
		m.Margins(rows, margins)
		if err := m.Predict(t.Context(), rows, scores); err != nil {
			t.Fatal(err)
		}
		want := "margin,prediction\n"
		for i := range margins {
			want += fmt.Sprintf("%v,%v\n", margins[i], scores[i])
		}
		write(t, "rows.csv", text)
		if got := must(t, "", "model", "score", "model.ubj", "rows.csv"); got != want {
			t.Errorf("the scores of %s differ", m.Info().Describe)
		}
		if got := must(t, "\uFEFF"+text, "model", "score", "model.ubj"); got != want {
			t.Errorf("the scores of standard input by %s differ", m.Info().Describe)
		}
		if out := must(t, "", "model", "inspect", "model.ubj"); !strings.Contains(out, "sha256:"+m.Info().Digest) {
			t.Error(out)
		}
	}
	r := command(t, "amount\n1\n", "model", "score", "model.ubj")
	if r.code != exitFailure || !strings.Contains(r.stderr, "the header lacks inputs of the model: spend.count_60s") {
		t.Errorf("%d %s", r.code, r.stderr)
	}
}

// TestRowsThatCannotBeScoredAreNamedAndPassedOver has a line for each row of the file:
// of a row that cannot be scored an empty one, and why on standard error.
func TestRowsThatCannotBeScoredAreNamedAndPassedOver(t *testing.T) {
	stump, err := os.ReadFile("testdata/stump.ubj")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	write(t, "stump.ubj", string(stump))
	good := "1,2,3,4,5,6"
	write(t, "good.csv", "a,b,c,d,e,f\n"+good+"\n")
	want := strings.TrimPrefix(must(t, "", "model", "score", "stump.ubj", "good.csv"), "margin,prediction\n")
	write(t, "rows.csv", "a,b,c,d,e,f\n"+good+"\n1,2,x,4,5,6\n1,2\n"+good+"\n1,2,3,4,5,1e39\n1,2,3,\"4\"x,5,6\n"+good+"\n")
	r := command(t, "", "model", "score", "stump.ubj", "rows.csv")
	if r.code != exitFailure || r.stdout != "margin,prediction\n"+want+",\n,\n"+want+",\n,\n"+want {
		t.Errorf("exit %d: %s", r.code, r.stdout)
	}
	for _, part := range []string{
		`row 2: rows.csv:3:5: column c: "x" is not a number`, "row 3: rows.csv:4:1: 2 cells, but the header has 6",
		"row 5: rows.csv:6:11: column f: it is 1e+39", "row 6: rows.csv:7:", "4 rows of 7 could not be scored",
	} {
		if !strings.Contains(r.stderr, part) {
			t.Errorf("no %q in %s", part, r.stderr)
		}
	}
	write(t, "many.csv", "a,b,c,d,e,f\n"+strings.Repeat("x,2,3,4,5,6\n", 3000)+good+"\n")
	r = command(t, "", "model", "score", "stump.ubj", "many.csv")
	if strings.Count(r.stderr, "\n") > 20+2 || !strings.Contains(r.stderr, "3000 rows of 3001") || !strings.HasSuffix(r.stdout, want) {
		t.Errorf("%d lines: %.500s", strings.Count(r.stderr, "\n"), r.stderr)
	}
}

func TestSeveralOutputsAreSeveralColumns(t *testing.T) {
	data := unpackedModel(t, "classes.ubj")
	m, err := tree.Parse("multi", data)
	if err != nil {
		t.Fatal(err)
	}
	classes := m.Info().Scores()
	if classes < 3 || m.MarginsPerRow() != classes {
		t.Fatalf("%d outputs, %d margins: not a model of several classes", classes, m.MarginsPerRow())
	}
	t.Chdir(t.TempDir())
	write(t, "multi.ubj", string(data))
	header := strings.Join(m.Info().Names(), ",")
	row := strings.Repeat("1,", m.Info().Width()-1) + "1"
	lines := strings.Split(must(t, header+"\n"+row+"\n", "model", "score", "multi.ubj"), "\n")
	var want []string
	for _, name := range []string{"margin_", "prediction_"} {
		for i := range classes {
			want = append(want, name+strconv.Itoa(i))
		}
	}
	if lines[0] != strings.Join(want, ",") || strings.Count(lines[1], ",") != 2*classes-1 {
		t.Errorf("%q", lines)
	}
}

func TestTextsOfAModelAreColumns(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"mood": "so \"so\",\nat best", "anger": 0.5}`)
	}))
	defer server.Close()
	t.Chdir(t.TempDir())
	write(t, "mood.yaml", "model: mood\nversion: 1\nkind: remote\ninputs: {text: string}\noutputs: {anger: 1, mood: string, no: bytes}\nremote: {endpoint: '"+server.URL+"', api: http}\n")
	if got, want := must(t, "text\nhello\n", "model", "score", "mood.yaml"), "prediction,mood,no\n0.5,\"so \"\"so\"\",\nat best\",\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// unpackedModel returns a model of the tests of package tree.
func unpackedModel(t *testing.T, name string) []byte {
	t.Helper()
	file, err := os.Open("../../internal/models/tree/testdata/" + name + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestLintAsksWhichTreesCount has a file of a Booster that stopped early. Lint asks, by
// the pipeline and by the manifest, until the file says which trees count.
func TestLintAsksWhichTreesCount(t *testing.T) {
	data := unpackedModel(t, "early-booster.json")
	t.Chdir(t.TempDir())
	write(t, "risk.json", string(data))
	inspected := func(path string, trees int) {
		t.Helper()
		if out := must(t, "", "model", "inspect", path); !strings.Contains(out, fmt.Sprintf("trees    %d\n", trees)) {
			t.Error(out)
		}
	}
	for trees, asks := range map[string]bool{"": true, "trees: all": false, "trees: best": false} {
		write(t, "risk.yaml", "pipeline: risk\ninput: {topic: in, key: k, fields: {k: string, a: number, b: number}}\nmodels:\n  risk:\n    file: risk.json\n    version: 1\n    outputs: {score: number}\n    "+trees+
			"\nsteps:\n  - score: {model: risk, inputs: [a, b]}\n  - emit: {topic: out, value: [risk.score]}\n")
		write(t, "model.yaml", fmt.Sprintf("model: risk\nversion: 1\nfile: risk.json\nsha256: %x\n%s\ninputs: {a: number, b: number}\noutputs: [score]\n", sha256.Sum256(data), trees))
		for _, path := range []string{"risk.yaml", "model.yaml"} {
			if out := must(t, "", "lint", path); strings.Contains(out, "warning: ") != asks || strings.Contains(out, "write trees: all or trees: best") != asks {
				t.Errorf("%q: %s", trees, out)
			}
		}
		count := map[string]int{"": 8, "trees: all": 8, "trees: best": 2}[trees]
		inspected("model.yaml", count)
		version := fmt.Sprint(1 + len(trees))
		r := command(t, "", "model", "add", "risk.json", "--name", "risk", "--version", version, "--trees", strings.TrimPrefix(trees, "trees: "))
		if r.code != exitOK || strings.Contains(r.stderr, "write trees: all or trees: best") != asks {
			t.Errorf("%q: %+v", trees, r)
		}
		inspected("models/risk/"+version+"/model.yaml", count)
	}
	if r := command(t, "", "model", "add", "risk.json", "--name", "risk", "--version", "99", "--trees", "some"); r.code != exitUsage {
		t.Errorf("%+v", r)
	}
}
