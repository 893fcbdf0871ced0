package http_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	rows "github.com/afterbay/afterbay/internal/lookups/http"
)

// Find what a service knows of keys.
func ExampleNew() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/users/ann" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprint(w, `{"trusted": true}`)
	}))
	defer server.Close()

	source, err := rows.New(rows.Options{URL: server.URL + "/users/{key}"})
	if err != nil {
		fmt.Println(err)
		return
	}
	found, err := source.Rows(context.Background(), []string{"ann", "bob"})
	fmt.Printf("%s, %v, %v\n", found[0], found[1] == nil, err)
	// Output: {"trusted": true}, true, <nil>
}
