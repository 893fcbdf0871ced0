// Command chat serves the page of this example, tokens for its users, and a stand-in
// for a chat model.
package main

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/afterbay/afterbay/clients/typescript"
	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/gateway/auth"
)

//go:embed page
var page embed.FS

func main() {
	folder := flag.String("folder", "examples/chat", "where keys.yaml is: the secrets that it and gateway.yaml name are made there")
	listen := flag.String("listen", "127.0.0.1:8090", "address of the page; one that gateway.yaml and writer.yaml name")
	gateway := flag.String("gateway", "ws://127.0.0.1:8088", "address of the gateway, for browsers")
	flag.Parse()
	if err := run(*folder, *listen, *gateway); err != nil {
		fmt.Fprintln(os.Stderr, "chat:", err)
		os.Exit(1)
	}
}

func run(folder, listen, gateway string) error {
	for _, name := range []string{"tokens.key", "cursors.key"} {
		if err := makeSecret(filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	file, err := config.LoadKeys(filepath.Join(folder, "keys.yaml"))
	if err != nil {
		return err
	}
	keys, err := file.Open(auth.Options{})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler(keys, gateway), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Printf("the page is http://%s/\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// makeSecret writes a file with a secret, unless the file exists.
func makeSecret(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("%w: run it in the root of the repository, or name --folder", err)
	}
	_, err = f.WriteString(rand.Text() + rand.Text() + "\n")
	return errors.Join(err, f.Close())
}

func handler(keys *auth.Keyring, gateway string) http.Handler {
	files, err := fs.Sub(page, "page")
	if err != nil { // of a name that is no path
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.Handle("GET /client/", http.StripPrefix("/client/", http.FileServerFS(typescript.Source())))
	mux.HandleFunc("POST /session", func(w http.ResponseWriter, r *http.Request) { session(w, r, keys, gateway) })
	mux.HandleFunc("GET /v1/models", models)
	mux.HandleFunc("POST /v1/chat/completions", complete)
	return mux
}

const lasts = time.Minute // a token

// session identifies the user of the page, and returns a token. All tabs of a browser are one
// client, named by its cookie. In a service with logins, use the user's name instead.
func session(w http.ResponseWriter, r *http.Request, keys *auth.Keyring, gateway string) {
	cookie, err := r.Cookie("client")
	if err != nil {
		cookie = &http.Cookie{Name: "client", Value: rand.Text(), Path: "/", MaxAge: 365 * 24 * 3600, HttpOnly: true, SameSite: http.SameSiteStrictMode}
		http.SetCookie(w, cookie)
	}
	text, err := keys.Issue("k1", auth.Identity{Tenant: "chat", Client: cookie.Value}, lasts)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"gateway": gateway, "client": cookie.Value, "token": text})
}
