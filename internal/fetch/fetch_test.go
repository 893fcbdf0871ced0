package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/internal/sys/s3"
	"github.com/afterbay/afterbay/internal/test/servertest"
	"github.com/afterbay/afterbay/model"
)

var here = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

func open(t *testing.T, o Options) *Fetcher {
	t.Helper()
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// local fetches from this machine.
func local(t *testing.T) *Fetcher { return open(t, Options{Plain: true, Private: here}) }

func serve(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func sum(content []byte) string {
	h := sha256.Sum256(content)
	return hex.EncodeToString(h[:])
}

// whose says whose fault an error is, and whether the same is tried again.
func whose(err error) string {
	switch {
	case err == nil:
		return "none"
	case calling.BlameOf(err) == model.BlameSource:
		return "place"
	case calling.Refused(err):
		return "row, at once"
	case calling.BlameOf(err) == model.BlameRows:
		return "row, after attempts"
	}
	return fmt.Sprint(calling.BlameOf(err))
}

func TestContentIsThatOfItsURLs(t *testing.T) {
	dir := t.TempDir()
	png := append([]byte("\x89PNG\x0d\x0a\x1a\x0a"), make([]byte, 600)...)
	if err := os.WriteFile(filepath.Join(dir, "a b.png"), png, 0o600); err != nil {
		t.Fatal(err)
	}
	to := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/told":
			w.Header().Set("Content-Type", "audio/wav; rate=8000")
			fmt.Fprint(w, "sound")
		case "/moved":
			http.Redirect(w, r, "/told", http.StatusFound)
		case "/empty":
			w.Header().Set("Content-Type", "text/plain")
		default:
			w.Header()["Content-Type"] = nil
			w.Write(png)
		}
	})
	f := open(t, Options{Plain: true, Private: here, Root: dir})
	file := "file://" + dir + "/a%20b.png"
	for _, c := range []struct {
		urls []string
		want []byte
		told string
	}{
		{[]string{file}, png, "image/png"},
		{[]string{to + "/told"}, []byte("sound"), "audio/wav"},
		{[]string{to + "/moved"}, []byte("sound"), "audio/wav"},
		{[]string{to + "/silent"}, png, "image/png"},
		{[]string{to + "/empty"}, nil, "text/plain"},
		{[]string{to + "/told", file, to + "/told"}, bytes.Join([][]byte{[]byte("sound"), png, []byte("sound")}, nil), "audio/wav"},
	} {
		got, err := f.Fetch(t.Context(), c.urls, 1000)
		if want := (Content{sum(c.want), int64(len(c.want)), c.told}); err != nil || got != want {
			t.Errorf("%s: %+v %v, want %+v", c.urls, got, err, want)
		}
		read, err := f.Bytes(t.Context(), got, nil, false)
		if err != nil || !bytes.Equal(read, c.want) || read == nil {
			t.Errorf("%s: read %d bytes, %v", c.urls, len(read), err)
		}
	}
	if s := f.Stats(); s.Objects != 6 || s.Hits != 6 || s.Misses != 0 {
		t.Errorf("%+v", s)
	}
}

func TestContentIsBounded(t *testing.T) {
	var sent atomic.Int64
	to := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/known" {
			w.Header().Set("Content-Length", "1000000000")
		}
		for piece := make([]byte, 1<<16); ; {
			n, err := w.Write(piece)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	})
	f := local(t)
	for path, want := range map[string]string{"/known": "too large: 1000000000 bytes, where at most 100000 are taken", "/unknown": "too large: more than the 100000 bytes"} {
		sent.Store(0)
		_, err := f.Fetch(t.Context(), []string{to + path}, 100_000)
		if whose(err) != "row, at once" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
		if n := sent.Load(); n > 16<<20 {
			t.Errorf("%s: %d bytes were sent", path, n)
		}
	}
	small := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 400)) })
	if _, err := f.Fetch(t.Context(), []string{small, small}, 800); err != nil {
		t.Error(err)
	}
	if _, err := f.Fetch(t.Context(), []string{small, small}, 799); whose(err) != "row, at once" || !strings.Contains(err.Error(), "2 of 2: ") {
		t.Error(err)
	}
}

// TestWhoseFaultItIsThatThereIsNoContent has one server for each way to fail.
func TestWhoseFaultItIsThatThereIsNoContent(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	to := serve(t, answer)
	const gone = "http://127.0.0.1:1"
	f := open(t, Options{Plain: true, Private: here, Root: dir, Breaker: control.BreakerOptions{Failures: 1000, Rate: 1}})
	for url, want := range map[string]string{
		to + "/status/404": "row, after attempts", to + "/status/410": "row, after attempts", to + "/status/403": "row, after attempts", to + "/status/204": "row, after attempts",
		to + "/status/500": "place", to + "/status/503": "place", to + "/status/429": "place", to + "/status/401": "place",
		to + "/half": "place", to + "/chunks": "place", to + "/hang": "place", to + "/drip": "place", gone: "place", to + "/reset": "place",
		to + "/loop": "row, at once", to + "/outside": "row, at once", to + "/tofile": "row, at once",
		"file://" + dir + "/none": "row, after attempts", "file://" + dir + "/pipe": "row, at once", "file://" + dir: "row, at once",
		"ftp://a/b": "row, at once", "": "row, at once", "https://": "row, at once", "http://a b/": "row, at once", "file:a": "row, at once", "s3://b/k": "row, at once", "https://u:p@a/": "row, at once",
	} {
		most := time.Minute
		if strings.HasSuffix(url, "/hang") || strings.HasSuffix(url, "/drip") { // these never end
			most = 300 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), most)
		_, err := f.Fetch(ctx, []string{url}, 1000)
		cancel()
		if whose(err) != want {
			t.Errorf("%s: %s: %v, want %s", url, whose(err), err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: shown: %v", url, err)
		}
	}
	_, err := f.Fetch(t.Context(), []string{to + "/status/404?token=secret"}, 1000)
	if err == nil || !strings.Contains(err.Error(), "/status/404?...: 404 Not Found") || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

// answer fails as its path says.
func answer(w http.ResponseWriter, r *http.Request) {
	var status int
	if _, err := fmt.Sscanf(r.URL.Path, "/status/%d", &status); err == nil {
		w.WriteHeader(status)
		return
	}
	switch r.URL.Path {
	case "/half":
		w.Header().Set("Content-Length", "900")
		w.Write(make([]byte, 400))
	case "/chunks":
		w.Write(make([]byte, 400))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	case "/reset":
		panic(http.ErrAbortHandler)
	case "/hang":
		<-r.Context().Done()
	case "/drip":
		for r.Context().Err() == nil {
			fmt.Fprint(w, "x")
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	case "/loop":
		http.Redirect(w, r, "/loop", http.StatusFound)
	case "/outside":
		http.Redirect(w, r, "http://10.0.0.1/?secret", http.StatusFound)
	case "/tofile":
		http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
	}
}

func TestFilesOutsideOfTheRootAreNotRead(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "in")
	for _, folder := range []string{root, filepath.Join(dir, "in2")} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"secret", "in/a", "in2/b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"in/out": "../secret", "in/abs": filepath.Join(dir, "secret"), "in/folder": "..", "in/ok": "a"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	f := open(t, Options{Root: root})
	for path, inside := range map[string]bool{
		"/in/a": true, "/in/ok": true, "/in/../in/a": true,
		"/secret": false, "/in/../secret": false, "/in/%2e%2e/secret": false, "/in/out": false, "/in/abs": false, "/in/folder/secret": false, "/in2/b": false, "/in/..%2fsecret": false,
	} {
		_, err := f.Fetch(t.Context(), []string{"file://" + dir + path}, 100)
		if inside != (err == nil) || err != nil && whose(err) != "row, at once" {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := f.Fetch(t.Context(), []string{"file://" + dir + "/in2/b"}, 100); err == nil || !strings.Contains(err.Error(), "it is outside of "+root) {
		t.Error(err)
	}
	if _, err := open(t, Options{}).Fetch(t.Context(), []string{"file://" + root + "/a"}, 100); whose(err) != "row, at once" || !strings.Contains(err.Error(), "content.root") {
		t.Error(err)
	}
	if _, err := open(t, Options{Root: filepath.Join(dir, "none")}).Fetch(t.Context(), []string{"file://" + dir + "/none/a"}, 100); whose(err) != "place" {
		t.Errorf("a root that is not there is the row's fault: %v", err)
	}
}

func TestPrivateAddressesAreNotAsked(t *testing.T) {
	asked := false
	to := serve(t, func(http.ResponseWriter, *http.Request) { asked = true })
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(to, "http://"))
	f := open(t, Options{Plain: true})
	for _, url := range []string{to, "http://localhost:" + port, "http://[::ffff:127.0.0.1]:" + port, "http://2130706433:" + port, "http://0x7f.1:" + port} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := f.Fetch(ctx, []string{url}, 100)
		cancel()
		if err == nil || asked {
			t.Errorf("%s is asked: %v", url, err)
		}
	}
	_, err := f.Fetch(t.Context(), []string{to}, 100)
	if whose(err) != "row, at once" || !strings.Contains(err.Error(), "127.0.0.1 is private") {
		t.Error(err)
	}
	for address, private := range map[string]bool{
		"8.8.8.8:443": false, "[2606:4700::1111]:443": false,
		"10.1.2.3:80": true, "172.16.0.1:80": true, "192.168.1.1:80": true, "169.254.169.254:80": true, "127.0.0.1:80": true, "0.0.0.0:80": true, "100.64.0.1:80": true, "224.0.0.1:80": true, "255.255.255.255:80": true, "198.18.0.1:80": true, "168.63.129.16:80": true, "[::ffff:168.63.129.16]:80": true,
		"[::1]:80": true, "[::]:80": true, "[fe80::1]:80": true, "[fe80::1%eth0]:80": true, "[fd00::1]:80": true, "[ff02::1]:80": true, "[::ffff:10.0.0.1]:80": true, "[64:ff9b::a00:1]:80": true, "[2002:a00:1::]:80": true, "[::7f00:1]:80": true, "nonsense": true,
	} {
		if err := f.options.reachable(address); (err != nil) != private {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestHostsThatAreNotNamedAreNotAsked(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "x") })
	f := open(t, Options{Plain: true, Private: here, Hosts: []string{"127.0.0.1", "*.example.com"}})
	if _, err := f.Fetch(t.Context(), []string{to}, 100); err != nil {
		t.Error(err)
	}
	for url, want := range map[string]bool{
		"https://A.example.com/": true, "https://a.b.example.com./": true,
		"https://example.com/": false, "https://badexample.com/": false, "https://127.0.0.2/": false, "https://example.com.evil/": false,
	} {
		if _, err := f.parse(url); (err == nil) != want {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := open(t, Options{}).Fetch(t.Context(), []string{to}, 100); whose(err) != "row, at once" || !strings.Contains(err.Error(), "content.http") {
		t.Error(err)
	}
}

func TestHostThatIsDownCostsOthersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var forgotten atomic.Uint64
		p := newPlaces(control.BreakerOptions{Failures: 3, Probe: 10 * time.Second}, time.Now, &forgotten)
		call := func(name string, err error) error {
			end, refused := p.begin(name)
			if refused == nil {
				end(t.Context(), err)
			}
			return refused
		}
		for range 3 {
			if err := call("a", away("down")); err != nil {
				t.Fatal(err)
			}
		}
		if err := call("a", nil); whose(err) != "place" || !strings.Contains(err.Error(), "a failed often: its breaker is open for 10s") {
			t.Error(err)
		}
		for range 10 {
			if err := call("b", missing("no")); err != nil {
				t.Errorf("what is missing counts against its place: %v", err)
			}
		}
		time.Sleep(10 * time.Second)
		if err := call("a", nil); err != nil {
			t.Errorf("it is not probed: %v", err)
		}
		if err := call("a", nil); err != nil {
			t.Errorf("it answers: %v", err)
		}
		for i := range 2 * placesMax {
			if call(fmt.Sprint(i), nil); len(p.known) > placesMax {
				t.Fatalf("%d places are known", len(p.known))
			}
		}
		if n := forgotten.Load(); n != placesMax+2 { // and a and b
			t.Errorf("%d places were forgotten", n)
		}
	})
}

func TestObjectsOfS3(t *testing.T) {
	server := servertest.S3(t)
	t.Setenv("AWS_ACCESS_KEY_ID", server.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", server.SecretKey)
	o := s3.Options{Endpoint: server.URL, Region: server.Region, Client: &http.Client{}}
	client, err := s3.New(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"", "2026/a b.wav", "other"} {
		headers := http.Header{"Content-Type": {"audio/wav"}}
		if response, err := client.Do(t.Context(), http.MethodPut, "calls", key, headers, []byte(strings.Repeat("x", 5*len(key)))); err != nil {
			t.Fatal(err)
		} else {
			response.Body.Close()
		}
	}
	f := open(t, Options{Buckets: []string{"calls", "nobucket"}, S3: o})
	got, err := f.Fetch(t.Context(), []string{"s3://calls/2026/a b.wav", "s3://calls/other"}, 1000)
	if want := (Content{sum([]byte(strings.Repeat("x", 85))), 85, "audio/wav"}); err != nil || got != want {
		t.Errorf("%+v %v, want %+v", got, err, want)
	}
	for url, want := range map[string]string{
		"s3://calls/none": "row, after attempts", "s3://nobucket/a": "row, after attempts", "s3://private/a": "row, at once", "s3://calls": "row, at once", "s3://calls/../private/a": "row, at once", "s3://calls/a/../../b": "row, at once", "s3:calls/a": "row, at once",
	} {
		if _, err := f.Fetch(t.Context(), []string{url}, 1000); whose(err) != want {
			t.Errorf("%s: %s: %v, want %s", url, whose(err), err, want)
		}
	}
	if _, err := f.Fetch(t.Context(), []string{"s3://calls/other"}, 24); whose(err) != "row, at once" {
		t.Error(err)
	}
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := f.Fetch(ctx, []string{"s3://calls/other"}, 1000); whose(err) != "place" {
		t.Error(err)
	}
	server.Resume()
	t.Setenv("AWS_SECRET_ACCESS_KEY", "of somebody else")
	if _, err := open(t, f.options).Fetch(t.Context(), []string{"s3://calls/other"}, 1000); whose(err) != "place" || !strings.Contains(err.Error(), "SignatureDoesNotMatch") {
		t.Error(err)
	}
}

func TestWrongOptionsAreRefused(t *testing.T) {
	_, err := New(Options{Root: "data", Hosts: []string{"https://a", "*"}, Buckets: []string{"a/b"}, CacheMax: -1, Breaker: control.BreakerOptions{Failures: -1}})
	for _, want := range []string{`root "data"`, `"https://a"`, `"*"`, `"a/b"`, "-1 bytes", "-1 failures"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := New(Options{Buckets: []string{"*"}, S3: s3.Options{Endpoint: "nowhere"}}); err == nil {
		t.Error("an endpoint that is not a URL is taken")
	}
	if errors.Is(err, errTooLarge) {
		t.Error(err)
	}
}
