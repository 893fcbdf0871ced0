package limit_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"github.com/afterbay/afterbay/internal/gateway/limit"
)

func TestListenerRefusesConnectionsOverTheBoundAndCountsClosedOnes(t *testing.T) {
	addresses, err := limit.New[netip.Prefix](limit.Options{Open: 2})
	if err != nil {
		t.Fatal(err)
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := limit.Listen(inner, addresses)
	conns := make(chan net.Conn, 10)
	ended := make(chan error, 1)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			conns <- conn
		}
	}()
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	dial()
	dial()
	first, second := <-conns, <-conns
	refused, err := http.ReadResponse(bufio.NewReader(dial()), nil)
	if err != nil || refused.StatusCode != http.StatusTooManyRequests || !refused.Close || refused.Header.Get("Retry-After") != "5" {
		t.Fatalf("%+v, %v", refused, err)
	}
	body, err := io.ReadAll(refused.Body)
	if want := `{"error":"this address has the maximum number of connections","hint":"try again after Retry-After"}` + "\n"; err != nil || string(body) != want {
		t.Errorf("%q, %v", body, err)
	}
	if s := addresses.Stats(); s.Open != 2 || s.Connections != 1 {
		t.Errorf("%+v", s)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	_ = first.Close() // again: it left once
	dial()
	third := <-conns
	if s := addresses.Stats(); s.Open != 2 {
		t.Errorf("%+v", s)
	}
	_, _ = second.Close(), third.Close()
	if s := addresses.Stats(); s.Open != 0 {
		t.Errorf("%+v", s)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// A server behind the listener serves, and a client that is refused reads why.
func TestListenerIsOneOfHTTP(t *testing.T) {
	addresses, err := limit.New[netip.Prefix](limit.Options{Burst: 1, Rate: 0.001})
	if err != nil {
		t.Fatal(err)
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") })}
	go func() { _ = server.Serve(limit.Listen(inner, addresses)) }()
	t.Cleanup(func() { _ = server.Close() })
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil || string(body) != "here" {
		t.Errorf("%q, %v", body, err)
	}
	_ = response.Body.Close()
	if second, err := client.Get("http://" + inner.Addr().String()); err == nil { // else the answer was lost with the connection
		if second.StatusCode != http.StatusTooManyRequests {
			t.Error(second.Status)
		}
		_ = second.Body.Close()
	}
	if s := addresses.Stats(); s.Rate == 0 {
		t.Errorf("%+v", s)
	}
}
