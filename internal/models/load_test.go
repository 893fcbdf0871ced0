package models

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/model"
)

const (
	risk = "../../scenario/testdata/risk.json" // XGBoost, one input
	tone = "../../scenario/testdata/tone.json" // a text and a number
)

func open(t testing.TB, path string) model.Model {
	t.Helper()
	m, err := File(path)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestContentTellsTheKind(t *testing.T) {
	for path, kind := range map[string]string{risk: "xgboost", tone: "text"} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		renamed := filepath.Join(t.TempDir(), "model.bin")
		if err := os.WriteFile(renamed, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := open(t, renamed).Info().Kind; got != kind {
			t.Errorf("%s is of kind %s", path, got)
		}
		if !slices.Contains(Told(), kind) {
			t.Errorf("%s is not among the kinds", kind)
		}
	}
}

func TestFilesThatAreNoModelsAreErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "no such file",
		dir:                        "is not a regular file",
		write("empty", ""):         "model empty: ",
		write("text", "hello"):     "model text: ",
		write("half", `{"format": "afterbay text model",`):    "model half: ",
		write("other", `{"format": "another text model"}`):    "model other: ",
		write("behind", `{"a": 1}{"afterbay text model": 1}`): "model behind: ",
	} {
		if _, err := File(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestTableReadsRowsByNameWhereTheModelHasNames(t *testing.T) {
	m := open(t, tone)
	table, err := NewTable(strings.NewReader("\uFEFFcapitals,note,text,score\n0.5,x,\"bad, bad\ngood\",1.5\n,y,,\n"), "rows.csv", m.Info())
	if err != nil {
		t.Fatal(err)
	}
	if others := table.Others(); !slices.Equal(others, []string{"note", "score"}) {
		t.Errorf("others %q", others)
	}
	rows := model.Rows{Width: 1, BytesWidth: 1}
	if err := table.Next(&rows); err != nil || rows.N != 1 || rows.Values[0] != 0.5 || string(rows.Bytes[0]) != "bad, bad\ngood" {
		t.Errorf("%+v, %v", rows, err)
	}
	if v, there, err := table.Value("score"); v != 1.5 || !there || err != nil {
		t.Errorf("%v %v %v", v, there, err)
	}
	if err := table.Next(&rows); err != nil || rows.Values[1] == rows.Values[1] || rows.Bytes[1] == nil || table.Where() != "rows.csv:4" {
		t.Errorf("%+v, %v, %s: an empty number is missing, an empty text is a text", rows, err, table.Where())
	}
	if _, there, err := table.Value("score"); there || err != nil {
		t.Errorf("%v %v", there, err)
	}
	if err := table.Next(&rows); err != io.EOF {
		t.Error(err)
	}
}

func TestTableRefusesWhatIsNoRowWithItsPlace(t *testing.T) {
	info := model.Info{Inputs: []model.Input{
		{Name: "n", Type: model.Number}, {Name: "c", Type: model.Number, Categories: []string{"US", "GB"}},
		{Name: "wave", Type: model.Number, Shape: []int{2}}, {Name: "blob", Type: model.Bytes},
	}}
	for text, want := range map[string]string{
		"":                                       "t.csv: empty",
		"n,c,wave_0,wave_1\n":                    "t.csv:1: the header lacks inputs of the model: blob",
		"n,c,wave_0,wave_1,blob\nx,,,,\n":        `t.csv:2:1: column n: "x" is not a number`,
		"n,c,wave_0,wave_1,blob\n1,FR,,,\n":      `t.csv:2:3: column c: "FR" is neither a number nor one of the categories US, GB`,
		"n,c,wave_0,wave_1,blob\n1,GB,1,2,AA=\n": `t.csv:2:10: column blob: write bytes as base64`,
		"n,c,wave_0,wave_1,blob\n1,GB,1,2,AAA=\n1,2\n": "t.csv:3:1: 2 cells, but the header has 5",
		"n,c,wave_0,wave_1,blob\n1,GB,1,2,AAA=\n":      "[1 1 1 2] [[0 0]]",
		"blob,wave_1,wave_0,n,c\nAAA=,2,1,1,1\n":       "[1 1 1 2] [[0 0]]",
	} {
		rows := model.Rows{Width: 4, BytesWidth: 1}
		table, err := NewTable(strings.NewReader(text), "t.csv", info)
		for err == nil {
			err = table.Next(&rows)
		}
		got := err.Error()
		if err == io.EOF {
			got = fmt.Sprint(rows.Values, rows.Bytes)
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
