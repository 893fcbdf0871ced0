package services_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/internal/process/services"
)

// Find what a service knows of keys.
func ExampleOpen() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/users/ann" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprint(w, `{"trusted": true}`)
	}))
	defer server.Close()

	source, err := services.Open(afterbay.Lookup{HTTP: &afterbay.HTTPRows{URL: server.URL + "/users/{key}"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	rows, err := source.Rows(context.Background(), []string{"ann", "bob"})
	fmt.Printf("%s, %v, %v\n", rows[0], rows[1] == nil, err)
	// Output: {"trusted": true}, true, <nil>
}
