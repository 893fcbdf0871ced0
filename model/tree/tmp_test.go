package tree

import (
	"context"
	"fmt"
	"github.com/afterbay/afterbay/model"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

func rd(t testing.TB, path string, skip int) (rows [][]float32) {
	b, _ := os.ReadFile(path)
	for _, l := range strings.Split(strings.ReplaceAll(strings.TrimSpace(string(b)), "\r", ""), "\n")[skip:] {
		var r []float32
		for _, c := range strings.Split(l, ",") {
			v, err := strconv.ParseFloat(c, 32)
			if c == "" {
				v = math.NaN()
			} else if err != nil {
				t.Fatal(err)
			}
			r = append(r, float32(v))
		}
		rows = append(rows, r)
	}
	return
}
func TestTmp(t *testing.T) {
	x := rd(t, "/work/shared/golden/test.csv", 1)
	y := rd(t, "/work/shared/golden/expected.csv", 1)
	for _, f := range []string{"xgb_num_300x6.json", "xgb_num_300x6.ubj", "xgb_reg_100.json", "xgb_reg_100.ubj"} {
		m, err := Load("/work/shared/golden/" + f)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(m.Info().Describe, m.Info().Digest[:8])
		var v []float32
		for _, r := range x {
			v = append(v, r...)
		}
		out := make([]float32, len(x))
		m.Margins(model.Rows{Width: 30, Values: v}, out)
		pr := make([]float32, len(x))
		if err := m.Predict(context.Background(), model.Rows{Width: 30, Values: v}, pr); err != nil {
			t.Fatal(err)
		}
		bad, badp, exact := 0, 0, 0
		for i := range out {
			c, p := 2, 1
			if strings.Contains(f, "reg") {
				c, p = 11, 11
			}
			if out[i] != y[i][c] {
				bad++
			}
			if d := int32(math.Float32bits(pr[i])) - int32(math.Float32bits(y[i][p])); d > 2 || d < -2 {
				badp++
			} else if d == 0 {
				exact++
			}
		}
		fmt.Println(f, len(out), bad, badp, exact)
	}
	for _, f := range []string{"xgb_dart_60x6.json", "xgb_dart_60x6.ubj", "xgb_cat_300x6.json", "xgb_cat_300x6.ubj", "xgb_multi_40x5.ubj", "xgb_multi_40x5.json", "lgb_num_300.txt", "skl_rf_200x8.onnx"} {
		_, err := Load("/work/shared/golden/" + f)
		fmt.Println(err)
	}
	x = rd(t, "/work/shared/baselines/golden_x.csv", 0)
	y = rd(t, "/work/shared/baselines/golden_y.csv", 0)
	for _, f := range []string{"model.json", "model.ubj"} {
		m, err := Load("/work/shared/baselines/" + f)
		if err != nil {
			t.Fatal(err)
		}
		w := 0.0
		for i, r := range x {
			var s [1]float32
			m.Predict(context.Background(), model.Rows{Width: 16, Values: r}, s[:])
			w = max(w, math.Abs(float64(s[0]-y[i][0])))
		}
		fmt.Println(f, m.Info().Describe, m.Info().Names, w)
	}
}
func BenchmarkX(b *testing.B) {
	x := rd(b, "/work/shared/golden/test.csv", 1)
	m, err := Load("/work/shared/golden/xgb_num_300x6.ubj")
	if err != nil {
		b.Fatal(err)
	}
	var v []float32
	for _, r := range x {
		v = append(v, r...)
	}
	for _, n := range []int{1, 4, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			out := make([]float32, n)
			i := 0
			for b.Loop() {
				m.Predict(context.Background(), model.Rows{Width: 30, Values: v[i*30 : (i+n)*30]}, out)
				if i += n; i+n > len(x) {
					i = 0
				}
			}
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
