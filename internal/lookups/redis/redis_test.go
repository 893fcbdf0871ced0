package redis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lookups"
	"github.com/afterbay/afterbay/internal/lookups/redis"
	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/internal/test/servertest"
	"github.com/afterbay/afterbay/lookup"
	"github.com/afterbay/afterbay/model"
)

// tell has a server do commands.
func tell(t *testing.T, server *servertest.Server, commands ...string) {
	t.Helper()
	client := server.Redis(t)
	for _, command := range commands {
		if err := client.Do(t.Context(), client.B().Arbitrary(strings.Split(command, " ")...).Build()).Error(); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
	}
}

func open(t *testing.T, o redis.Options) *redis.Source {
	t.Helper()
	s, err := redis.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func texts(rows [][]byte) []string {
	list := make([]string, len(rows))
	for i, row := range rows {
		if list[i] = string(row); row == nil {
			list[i] = "none"
		}
	}
	return list
}

func TestRowsAreTheValuesOfKeys(t *testing.T) {
	server := servertest.Redis(t)
	tell(t, server, `SET user:ann {"level":3}`, `SET user:`+"b\xff b"[:2]+` {}`, `SET ann {"level":9}`, `LPUSH user:list 1`, `SET user:empty `, `SELECT 2`, `SET user:eve {"level":5}`)
	s := open(t, redis.Options{URL: server.URL, Prefix: "user:"})
	rows, err := s.Rows(t.Context(), []string{"eve", "ann", "list", "b\xff", "ann", "empty"})
	want := []string{"none", `{"level":3}`, "none", "{}", `{"level":3}`, ""}
	if got := texts(rows); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v, want %q", got, err, want)
	}
	other := open(t, redis.Options{URL: strings.TrimSuffix(server.URL, "0") + "2", Prefix: "user:"})
	if rows, err := other.Rows(t.Context(), []string{"eve"}); err != nil || string(rows[0]) != `{"level":5}` {
		t.Errorf("in database 2: %q %v", rows, err)
	}
}

func TestServerThatIsDownIsNoKeysFaultAndComesBack(t *testing.T) {
	server := servertest.Redis(t)
	server.Kill()
	s := open(t, redis.Options{URL: server.URL})
	ask := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		_, err := s.Rows(ctx, []string{"ann"})
		return err
	}
	for range 2 {
		if err := ask(time.Minute); calling.BlameOf(err) != model.BlameWay || err == nil {
			t.Fatalf("nobody listens: %v", err)
		}
	}
	restart := func() {
		t.Helper()
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	restart()
	if err := ask(time.Minute); err != nil {
		t.Fatalf("after it came: %v", err)
	}
	server.Pause()
	start := time.Now()
	if err := ask(50 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 10*time.Second {
		t.Errorf("while it hangs: %v after %v", err, time.Since(start))
	}
	server.Resume()
	if err := ask(time.Minute); err != nil {
		t.Errorf("after it went on: %v", err)
	}
	server.Kill()
	if err := ask(time.Minute); calling.BlameOf(err) != model.BlameWay || err == nil {
		t.Errorf("after it was killed: %v", err)
	}
	restart()
	var err error
	for range 10 { // connections that broke are noticed one by one
		if err = ask(time.Minute); err == nil {
			break
		}
	}
	if err != nil {
		t.Errorf("after it came back: %v", err)
	}
}

func TestWrongPasswordIsNotShown(t *testing.T) {
	server := servertest.Redis(t)
	for _, url := range []string{strings.Replace(server.URL, "told", "hush", 1), "http://:hush@host/", "redis://:hush@host:port/x"} {
		s, err := redis.New(redis.Options{URL: url})
		if err == nil {
			t.Cleanup(s.Close)
			if _, err = s.Rows(t.Context(), []string{"ann"}); calling.BlameOf(err) != model.BlameWay {
				t.Errorf("%v: blame %v", err, calling.BlameOf(err))
			}
		}
		if err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%v", err)
		}
	}
}

func TestFinderAsksManyKeysAtOnce(t *testing.T) {
	server := servertest.Redis(t)
	var sets, keys, want []string
	for i := range 1000 {
		sets = append(sets, fmt.Sprintf(`SET k%d {"n":%d}`, i, i))
		keys, want = append(keys, fmt.Sprint("k", i)), append(want, fmt.Sprintf(`{"n":%d}`, i))
	}
	tell(t, server, sets...)
	f := lookups.New(open(t, redis.Options{URL: server.URL}), lookups.Options{Timeout: time.Minute})
	found, err := f.Find(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	for i := range found {
		if string(found[i].Row) != want[i] {
			t.Fatalf("row %d is %s", i, found[i].Row)
		}
	}
	if s := f.Stats(); s.Calls != 10 {
		t.Errorf("%+v", s)
	}
}

func TestCheckSaysWhyKeysAreNotRead(t *testing.T) {
	server := servertest.Redis(t)
	as := func(user string) string { return strings.Replace(server.URL, "redis://:", "redis://"+user+":", 1) }
	tell(t, server, "SET user:ann {}", "HSET device:7 kind phone", "SET odd[1]:a {}",
		"ACL SETUSER few on >told~to~nobody ~user:* +mget", "ACL SETUSER none on nopass ~* +get")
	few := strings.Replace(as("few"), "%20", "~", 2)
	gone := servertest.Redis(t)
	gone.Kill()
	for _, c := range []struct{ url, prefix, option, said, hint string }{
		{url: server.URL, prefix: "user:"},
		{url: server.URL, prefix: "odd[1]:"},
		{url: server.URL, prefix: "nobody:"},
		{url: few, prefix: "user:"}, // may not look for keys
		{server.URL, "device:", "prefix", `"device:7" in Redis is of type hash`, "JSON strings"},
		{few, "device:", "url", "NOPERM", "~device:* +mget"},
		{as("none"), "user:", "url", "NOPERM", "+mget"},
		{as("nobody"), "user:", "url", "WRONGPASS", "correct user and password"},
		{gone.URL, "user:", "url", "connection refused", "start Redis there"},
	} {
		err := open(t, redis.Options{URL: c.url, Prefix: c.prefix}).Check(t.Context())
		var m *lookup.Mistake
		if c.said == "" {
			if err != nil {
				t.Errorf("%s: %v", c.prefix, err)
			}
			continue
		}
		if !errors.As(err, &m) || m.Field != c.option || !strings.Contains(m.Error(), c.said) || !strings.Contains(m.Hint, c.hint) || strings.Contains(m.Error(), "told") {
			t.Errorf("%+v: %+v", c, m)
		}
	}
}
