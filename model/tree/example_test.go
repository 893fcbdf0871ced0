package tree_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log"
	"math"
	"os"

	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/model/tree"
)

func Example() {
	fraud, err := tree.Parse("fraud.json", read("testdata/fraud.json.gz"))
	if err != nil {
		log.Fatal(err)
	}
	info := fraud.Info()
	fmt.Println(info.Describe)

	row := make([]float32, info.Inputs)
	row[0] = 950                 // amount
	row[2] = float32(math.NaN()) // tx_1h is missing
	if err := fraud.Check(row); err != nil {
		log.Fatal(err)
	}
	scores := make([]float32, 1)
	if err := fraud.Predict(context.Background(), model.Rows{Width: info.Inputs, Values: row}, scores); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %.4f\n", info.Names[0], scores[0])

	row[0] = float32(math.Inf(1))
	fmt.Println(fraud.Check(row))
	// Output:
	// binary:logistic, 300 trees of depth up to 6, 32928 nodes
	// amount 0.2757
	// input "amount" is +Inf: a model of trees takes finite and missing values
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
