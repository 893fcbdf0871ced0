package tree_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/models/tree"
	"github.com/afterbay/afterbay/model"
)

func Example() {
	fraud, err := tree.Parse("fraud.json", read("testdata/fraud.json.gz"))
	if err != nil {
		log.Fatal(err)
	}
	info := fraud.Info()
	shape, _, _ := strings.Cut(info.Describe, ", kernel ") // which kernel depends on the processor
	fmt.Println(shape)

	row := make([]float64, info.Width())
	row[0] = 950        // amount
	row[2] = math.NaN() // tx_1h is missing
	if err := fraud.Check(row, nil); err != nil {
		log.Fatal(err)
	}
	scores := make([]float32, 1)
	if err := fraud.Predict(context.Background(), model.Rows{Width: info.Width(), Values: row}, scores); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %.4f\n", info.Names()[0], scores[0])

	row[0] = math.Inf(1)
	fmt.Println(fraud.Check(row, nil))
	// Output:
	// binary:logistic, 300 trees of depth up to 6, 32928 nodes
	// amount 0.2757
	// input "amount": it is +Inf: a model of trees takes finite numbers within float32, and missing values
}

// A model trained on a data frame knows what the codes of its inputs stand for.
func ExampleModel_Categories() {
	shop, err := tree.Parse("shop.ubj", read("testdata/kind-3.2.0-frame-categories.ubj.gz"))
	if err != nil {
		log.Fatal(err)
	}
	colors := shop.Categories(0)
	row := []float64{float64(slices.Index(colors, "green")), 3, 12, 0.5, 0, 1}
	margins := make([]float32, shop.MarginsPerRow())
	shop.Margins(model.Rows{Width: len(row), Values: row}, margins)
	fmt.Printf("%s %q: green is %g\n", shop.Info().Names()[0], colors, row[0])
	fmt.Println("margin", margins[0])
	// Output:
	// color ["blue" "green" "red"]: green is 1
	// margin 2.3051448
}

// read unpacks a file; tree.Load reads one that is not packed.
func read(path string) []byte {
	file, err := os.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		log.Fatal(err)
	}
	data, err := io.ReadAll(packed)
	if err != nil {
		log.Fatal(err)
	}
	return data
}
