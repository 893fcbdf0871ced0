package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/afterbay/afterbay/internal/http/server"
)

func Example() {
	s := server.New(server.Options{Name: "example", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "hello")
	})})
	listener, err := server.Listen("127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error)
	go func() { ended <- s.Run(ctx, listener, nil) }()
	reply, err := http.Get("http://" + listener.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	text, _ := io.ReadAll(reply.Body)
	_ = reply.Body.Close()
	fmt.Print(string(text))
	stop()
	fmt.Println(<-ended)
	// Output:
	// hello
	// <nil>
}
