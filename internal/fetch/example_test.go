package fetch_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/afterbay/afterbay/internal/fetch"
)

// Fetch a file, and read what was fetched.
func ExampleFetcher() {
	root, err := os.MkdirTemp("", "uploads")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	if err := os.WriteFile(filepath.Join(root, "note.txt"), []byte("payment failed"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	f, err := fetch.New(fetch.Options{Root: root})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	urls := []string{"file://" + root + "/note.txt"}
	content, err := f.Fetch(context.Background(), urls, fetch.MaxBytes)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := f.Bytes(context.Background(), content, urls, true)
	fmt.Printf("%d bytes of %s, sha256 %s...: %s %v\n", content.Size, content.Type, content.Sum[:8], text, err)

	_, err = f.Fetch(context.Background(), []string{"http://169.254.169.254/latest/meta-data"}, fetch.MaxBytes)
	fmt.Println(err)
	// Output:
	// 14 bytes of text/plain, sha256 7925b2d3...: payment failed <nil>
	// http://169.254.169.254/latest/meta-data: it is not encrypted: use https, or allow http with content.http
}
