package typescript_test

import (
	"fmt"
	"io/fs"
	"net/http"

	"github.com/afterbay/afterbay/clients/typescript"
)

// Example serves the client to pages, which import it as /client/index.js.
func Example() {
	http.Handle("GET /client/", http.StripPrefix("/client/", http.FileServerFS(typescript.Source())))
	modules, err := fs.Glob(typescript.Source(), "*.js")
	fmt.Println(modules, err)
	// Output: [client.js errors.js event.js index.js link.js wait.js] <nil>
}
