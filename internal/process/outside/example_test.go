package outside_test

import (
	"context"
	"fmt"

	"github.com/afterbay/afterbay/internal/models"
	"github.com/afterbay/afterbay/internal/process/outside"
	"github.com/afterbay/afterbay/model"
)

func ExampleKinds() {
	_, _, err := models.Verified(context.Background(), &model.Manifest{
		Name: "risk", Version: 1, Kind: "process", Process: &model.Process{},
		Inputs: []model.ManifestInput{{Name: "amount"}}, Outputs: []model.Output{{Name: "score", Size: 1}},
	}, outside.Kinds())
	fmt.Println(err)
	// Output: process: model process: no command: it is the program to run and its arguments
}
