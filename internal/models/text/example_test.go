package text_test

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/models/text"
)

// A file as export.py writes it, with tables of characters for ASCII alone.
const file = `{"format":"afterbay text model","version":1,"source":"by hand","inputs":[{"name":"text","kind":"text"}],
"characters":{"word":[48,57,65,90,95,95,97,122],"lower":[[65,90,1,32]]},
"blocks":[{"text":{"input":0,"analyzer":"word","lowercase":true,"token_pattern":"(?u)\\b\\w\\w+\\b",
	"ngram_range":[1,1],"vocabulary":["bad","good"],"norm":"l2"}}],
"outputs":["positive"],"members":[{"coef":[[-2,2]],"intercept":[0],"link":"sigmoid"}]}`

func ExampleModel_Score() {
	m, err := text.Parse("small.json", []byte(file))
	if err != nil {
		fmt.Println(err)
		return
	}
	scores := make([]float64, 3)
	if err := m.Score([]string{"Good, very good!", "a bad day", "so so"}, scores); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s %.3f\n", m.Outputs()[0], scores)
	// Output: positive [0.881 0.119 0.500]
}
