package batch

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/model"
)

// said is lengths with a text in its answer.
type said struct{ *lengths }

func (m said) Info() model.Info {
	info := m.lengths.Info()
	info.Outputs = append(info.Outputs, model.Output{Size: 1, Type: model.String})
	info.RowsMax = 10
	return info
}

func (m said) Answer(ctx context.Context, rows model.Rows, scores []float32, texts [][]byte) error {
	for i := range texts {
		if _, b := rows.Row(i); len(b[0]) > 1 {
			texts[i] = bytes.ToUpper(b[0])
		}
	}
	return m.Predict(ctx, rows, scores)
}

// listOf returns a list of rows of texts, numbered from first on.
func listOf(first int, texts ...string) []byte {
	list := []byte{}
	for i, text := range texts {
		list = AppendElement(list, first+i, []float64{float64(10 * i)}, [][]byte{[]byte(text)})
	}
	return list
}

func newLists(m model.Model, size int) *Lists {
	return &Lists{Model: m, Size: size, Width: 1, Texts: 1, Most: 4}
}

// answerLists has lists answered, alone in their call.
func answerLists(l *Lists, lists ...[]byte) ([][]byte, error) {
	rows := model.Rows{BytesWidth: 1}
	for _, list := range lists {
		rows.Append(nil, [][]byte{list})
	}
	answers := make([][]byte, len(lists))
	return answers, l.Answer(context.Background(), rows, nil, answers)
}

func TestListsShareCalls(t *testing.T) {
	inner := said{new(lengths)}
	l := newLists(inner, 3)
	answers, err := answerLists(l, listOf(0, "aa", "b"), listOf(0), listOf(7, "ccc", "", "dd"))
	if err != nil {
		t.Fatal(err)
	}
	if want := [][]int{{2, 1, 3}, {0, 2}}; !slices.EqualFunc(inner.calls, want, slices.Equal[[]int]) {
		t.Errorf("the model was called for texts of %v, want %v", inner.calls, want)
	}
	var all []string
	for _, list := range answers {
		for rest := list; len(rest) > 0; {
			one := model.Answer{Scores: make([]float32, 2), Texts: make([][]byte, 1)}
			if rest, err = NextAnswer(rest, &one); err != nil {
				t.Fatal(err)
			}
			all = append(all, string(one.Texts[0]))
			if (one.Texts[0] == nil) != (one.Scores[1] < 2) {
				t.Errorf("a text of %v bytes was answered with %q", one.Scores[1], one.Texts[0])
			}
		}
		all = append(all, ".")
	}
	if got := strings.Join(all, " "); got != "AA  . . CCC  DD ." {
		t.Errorf("answers %q", got)
	}
	if info := l.Info(); info.RowsMax != 2 || info.Scores() != 0 || info.Texts() != 1 || info.Request == inner.Info().Request {
		t.Errorf("info %+v", info)
	}
}

func TestFailedRowIsThatOfItsList(t *testing.T) {
	l := newLists(&Counted{Model: said{new(lengths)}}, 8)
	_, err := answerLists(l, listOf(0, "a"), listOf(4, "b", "x", "xx"), listOf(0, "c"))
	var failed model.RowErrors
	if !errors.As(err, &failed) || len(failed) != 1 || failed[0].Row != 1 || failed[0].Err.Error() != "element 5: no" {
		t.Fatalf("%v", err)
	}
	if calling.BlameOf(failed[0].Err) != model.BlameRows {
		t.Errorf("%v is to blame", calling.BlameOf(failed[0].Err))
	}
	if got := CountedOf(l).Outcomes(); got != (Outcomes{Rows: 5, Refused: 2}) {
		t.Errorf("counted %+v", got)
	}
}

// away is a model that does not answer.
type away struct{ said }

func (away) Answer(context.Context, model.Rows, []float32, [][]byte) error {
	return context.DeadlineExceeded
}

func TestListsOfModelThatIsAway(t *testing.T) {
	_, err := answerLists(newLists(away{said{new(lengths)}}, 8), listOf(0, "a"), listOf(0, "b"))
	if err == nil || calling.BlameOf(err) != model.BlameWay || strings.Contains(err.Error(), "element") {
		t.Errorf("%v: want the error of the way, of no element", err)
	}
}

func TestListsThatAreDamaged(t *testing.T) {
	whole := listOf(0, "text")
	for n := 1; n < len(whole); n++ {
		if _, err := answerLists(newLists(said{new(lengths)}, 8), whole[:n]); !errors.Is(err, errList) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	one := model.Answer{Scores: make([]float32, 2), Texts: make([][]byte, 1)}
	answers, _ := answerLists(newLists(said{new(lengths)}, 8), whole)
	for n := range answers[0] {
		if _, err := NextAnswer(answers[0][:n], &one); !errors.Is(err, errList) {
			t.Errorf("%d bytes of an answer: %v", n, err)
		}
	}
}
