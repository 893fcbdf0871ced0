package process_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/afterbay/afterbay/internal/models/process"
	"github.com/afterbay/afterbay/model"
)

func ExampleHelper() {
	first, _, _ := strings.Cut(process.Helper(), "\n")
	fmt.Println(first)
	// Output: """Scores for Afterbay with a function of Python: python3 worker.py model.py
}

func ExampleStart() {
	if err := os.WriteFile("worker.py", []byte(process.Helper()), 0o644); err != nil {
		log.Fatal(err)
	}
	m, err := process.Start(context.Background(), process.Options{
		Command: []string{"python3", "worker.py", "model.py"},
		Inputs:  []model.Input{{Name: "amount", Type: model.Number}, {Name: "hour", Type: model.Number}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	scores := make([]float32, 1)
	if err := m.Predict(context.Background(), model.Rows{Width: 2, Values: []float64{99.5, 23}}, scores); err != nil {
		log.Fatal(err)
	}
	fmt.Println(scores)
}
