package batch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/model"
)

// echo is lengths that answers a row with its text and its number, and with
// nothing to an empty one.
type echo struct{ lengths }

func (m *echo) Info() model.Info {
	info := m.lengths.Info()
	info.Outputs = append(info.Outputs, model.Output{Size: 1, Type: model.String}, model.Output{Size: 1, Type: model.Bytes})
	return info
}

func (m *echo) Answer(ctx context.Context, rows model.Rows, scores []float32, texts [][]byte) error {
	for i := range rows.Len() {
		values, bytes := rows.Row(i)
		if len(bytes[0]) > 0 {
			texts[2*i], texts[2*i+1] = bytes[0], fmt.Append(nil, values[0])
		}
	}
	return m.Predict(ctx, rows, scores)
}

// told says whether a row has the texts of echo.
func told(number int, text string, texts [][]byte) bool {
	if text == "" {
		return texts[0] == nil && texts[1] == nil
	}
	return string(texts[0]) == text && string(texts[1]) == fmt.Sprint(number)
}

func TestTextsStayWithTheirRows(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var g Gather
	for range 200 {
		var texts []string
		for range random.IntN(50) {
			texts = append(texts, strings.Repeat("a", random.IntN(20)))
			if random.IntN(30) == 0 {
				texts[len(texts)-1] += "x"
			}
		}
		gather(&g, texts...)
		if err := g.Run(t.Context(), &echo{}, 2, 1+random.IntN(8), random.IntN(2) == 0); err != nil {
			t.Fatal(err)
		}
		failed := map[int]bool{}
		for _, f := range g.Failed {
			failed[f.Row] = true
		}
		for i, text := range texts {
			bad := strings.Contains(text, "x")
			if a := g.Answer(i); bad != failed[i] || !bad && (!told(i, text, a.Texts) || len(a.Scores) != 2 || a.Scores[0] != float32(i)) {
				t.Fatalf("row %d, %q: %v %q, failed: %v", i, text, a.Scores, a.Texts, failed[i])
			}
		}
	}
}

func TestCallersOfASharedCallGetTheirOwnTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShared(&echo{}, model.Policy{Size: 8, Wait: time.Second}, 1)
		var group sync.WaitGroup
		for n := range 4 {
			group.Go(func() {
				rows := model.Rows{Width: 1, BytesWidth: 1}
				for i := range n + 1 {
					rows.Append([]float64{float64(10*n + i)}, [][]byte{[]byte(strings.Repeat("a", i))})
				}
				scores, texts := make([]float32, 2*(n+1)), make([][]byte, 2*(n+1))
				if err := s.Answer(t.Context(), rows, scores, texts); err != nil {
					t.Error(err)
				}
				for i := range n + 1 {
					if !told(10*n+i, strings.Repeat("a", i), texts[2*i:2*i+2]) || scores[2*i] != float32(10*n+i) {
						t.Errorf("row %d of %d: %v %q", i, n+1, scores, texts)
					}
				}
			})
		}
		group.Wait()
		if err := s.Predict(t.Context(), model.Rows{Width: 1, BytesWidth: 1, N: 1, Values: []float64{1}, Bytes: [][]byte{nil}}, make([]float32, 2)); err == nil {
			t.Error("scores alone of a model with texts")
		}
	})
}
