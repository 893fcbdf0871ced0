package tree

import (
	"testing"
	"context"
	"fmt"
	"time"
	"github.com/afterbay/afterbay/model"
)
func TestBest(t *testing.T) {
	x := rd(t, "/work/shared/golden/test.csv", 1)
	m, _ := Load("/work/shared/golden/xgb_num_300x6.ubj")
	var v []float32
	for _, r := range x { v = append(v, r...) }
	out := make([]float32, 64)
	for _, n := range []int{1, 4, 8, 64} {
		best := time.Hour
		for k := range 3000 {
			at := k * 64 % 9900
			s := time.Now()
			for j := 0; j < 64; j += n {
				m.Predict(context.Background(), model.Rows{Width: 30, Values: v[(at+j)*30:(at+j+n)*30]}, out)
			}
			best = min(best, time.Since(s))
		}
		fmt.Println(n, best.Nanoseconds()/64, "ns/row")
	}
}
