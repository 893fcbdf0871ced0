package fetch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/model"
)

// reader is a model that says what it was given, and refuses what has an x.
type reader struct{ calls int }

func (*reader) Info() model.Info {
	return model.Info{Inputs: []model.Input{{Name: "n", Type: model.Number}, {Name: "image", Type: model.Bytes}}, Outputs: []model.Output{{Name: "n", Size: 1}, {Name: "text", Size: 1, Type: model.String}}}
}

func (*reader) Check(_ []float64, bytes [][]byte) error {
	if strings.Contains(string(bytes[0]), "x") {
		return errors.New("has an x")
	}
	return nil
}

func (*reader) Predict(context.Context, model.Rows, []float32) error { return calling.ErrTexts }

func (r *reader) Answer(_ context.Context, rows model.Rows, scores []float32, texts [][]byte) error {
	r.calls++
	for i := range rows.Len() {
		values, bytes := rows.Row(i)
		scores[i], texts[i] = float32(values[0]), append([]byte("read "), bytes[0]...)
	}
	return nil
}

func TestModelsAreGivenContent(t *testing.T) {
	var version atomic.Int64
	to := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/none" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprintf(w, "%s of %d", strings.TrimPrefix(r.URL.Path, "/"), version.Load())
	})
	f := open(t, Options{Plain: true, Private: here, CacheMax: 20})
	m := NewModel(f, true, 100, control.BreakerOptions{})
	list := func(paths ...string) (text []byte) {
		for _, path := range paths {
			text = value.AppendString(text, to+path)
		}
		return text
	}
	urls := [][]byte{list("/a"), list("/b", "/c"), list("/none"), list("/x"), list("/d")}
	texts := make([][]byte, len(urls))
	err := m.Answer(t.Context(), model.Rows{BytesWidth: 1, Bytes: urls}, nil, texts)
	var failed model.RowErrors
	if !errors.As(err, &failed) || len(failed) != 1 || failed[0].Row != 2 || !strings.Contains(err.Error(), "/none: 404 Not Found") {
		t.Fatal(err)
	}
	c := NewContents(&reader{}, []Column{{At: 0, From: m, Timeout: time.Second}})
	rows := model.Rows{Width: 1, BytesWidth: 2}
	for _, i := range []int{0, 1, 3, 4} {
		var row Row
		if err := json.Unmarshal(texts[i], &row); err != nil || row.Bytes != hashName+row.Sum+":"+fmt.Sprint(row.Size) {
			t.Fatalf("%s %v", texts[i], err)
		}
		rows.Append([]float64{float64(i)}, [][]byte{[]byte(row.Bytes), urls[i]})
	}
	ask := func(ctx context.Context) string {
		scores, texts := make([]float32, 4), make([][]byte, 4)
		err := c.Answer(ctx, rows, scores, texts)
		if calling.BlameOf(err) == model.BlameWay {
			t.Error(err)
		}
		said := fmt.Sprintf("%v %q", scores, texts)
		var failed model.RowErrors
		if errors.As(err, &failed) {
			for _, f := range failed {
				said += fmt.Sprintf(" %d: %s", f.Row, whose(f.Err))
			}
		}
		return said
	}
	// Some is not kept, of which none is fetched while others wait.
	if got := ask(t.Context()); !strings.Contains(got, ": place") || !strings.Contains(got, "read ") {
		t.Error(got)
	}
	if got, want := ask(model.WithCall(t.Context(), model.Call{OffLoop: true})), `[0 1 0 4] ["read a of 0" "read b of 0c of 0" "" "read d of 0"] 2: row, at once`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	version.Store(1)
	if got := ask(model.WithCall(t.Context(), model.Call{OffLoop: true})); !strings.Contains(got, ": row, at once") {
		t.Error(got)
	}
	if s := f.Stats(); s.Again == 0 || s.Changed == 0 || s.Unfetched != 1 || s.Evicted == 0 || s.Kept > 20 {
		t.Errorf("%+v", s)
	}
}

func TestContentThatHasChangedIsAnError(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a of 1") })
	first := Content{Sum: sum([]byte("a of 0")), Size: 6}
	_, err := local(t).Bytes(t.Context(), first, []string{to}, true)
	if whose(err) != "row, at once" || !strings.Contains(err.Error(), first.Sum) || !strings.Contains(err.Error(), sum([]byte("a of 1"))) {
		t.Error(err)
	}
	first.Size = 3
	if _, err := local(t).Bytes(t.Context(), first, []string{to}, true); whose(err) != "row, at once" || !strings.Contains(err.Error(), "was larger") {
		t.Error(err)
	}
	same := Content{Sum: sum([]byte("a of 1")), Size: 6}
	if got, err := local(t).Bytes(t.Context(), same, []string{to}, true); err != nil || string(got) != "a of 1" {
		t.Errorf("%q %v", got, err)
	}
}

func TestRowsWithoutContentOrWithNonsenseAreTheirOwn(t *testing.T) {
	f := local(t)
	if err := f.cache.put(sum([]byte("ok\xff")), []byte("ok\xff")); err != nil {
		t.Fatal(err)
	}
	good := []byte(Content{Sum: sum([]byte("ok\xff")), Size: 3}.reference())
	inner, from := &reader{}, NewModel(f, false, 100, control.BreakerOptions{})
	rows := model.Rows{Width: 1, BytesWidth: 2}
	for i, reference := range [][]byte{nil, []byte("nonsense"), good, []byte("sha256:" + strings.Repeat("0", 64) + ":x")} {
		rows.Append([]float64{float64(i)}, [][]byte{reference, nil})
	}
	for _, text := range []bool{false, true} {
		texts := make([][]byte, 4)
		err := NewContents(inner, []Column{{Text: text, From: from, Timeout: time.Second}}).Answer(t.Context(), rows, make([]float32, 4), texts)
		var failed model.RowErrors
		want := 2
		if text {
			want = 3
		}
		if !errors.As(err, &failed) || len(failed) != want || failed[0].Row != 1 || string(texts[0]) != "read " || (texts[2] == nil) != text {
			t.Errorf("%v: %q %v", text, texts, err)
		}
	}
	if err := NewContents(inner, []Column{{}}).Check(nil, [][]byte{good}); err == nil {
		t.Error("a row without its URL is taken")
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	const seed = 5
	for name, dir := range map[string]string{"memory": "", "folder": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			c := newCache(dir, 10_000)
			for i := range 2000 {
				content := bytes.Repeat([]byte{byte(rng.IntN(40))}, 100+rng.IntN(20)*10)
				if i%100 == 0 {
					content = make([]byte, 10_001)
				}
				if err := c.put(sum(content), content); err != nil {
					t.Fatal(err)
				}
				if got := c.get(sum(content)); i%100 > 0 && !bytes.Equal(got, content) || i%100 == 0 && got != nil {
					t.Fatalf("seed %d, %d: %d bytes of %d", seed, i, len(got), len(content))
				}
				if n, _ := c.stats(); n > 10_000 || i > 500 && n < 9_000 {
					t.Fatalf("seed %d: %d bytes are kept", seed, n)
				}
			}
			if _, evicted := c.stats(); evicted == 0 {
				t.Error("nothing made room")
			}
			if dir != "" {
				checkFolder(t, dir, &c)
			}
		})
	}
}

// checkFolder sees that a folder holds what its cache says, and that another process
// finds it there.
func checkFolder(t *testing.T, dir string, c *cache) {
	t.Helper()
	total := int64(0)
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			info, err := entry.Info()
			total += info.Size()
			return err
		}
		return err
	})
	kept, _ := c.stats()
	if err != nil || total != kept {
		t.Errorf("%d bytes in the folder, %d are known: %v", total, kept, err)
	}
	next := newCache(dir, 5_000)
	var damaged string
	for hash := range c.known {
		if content := next.get(hash); content != nil && sum(content) != hash {
			t.Error("content of another hash")
		} else if content != nil {
			damaged = hash
		}
	}
	if n, _ := next.stats(); n > 5_000 || n < 4_000 {
		t.Errorf("%d bytes are found", n)
	}
	if err := os.WriteFile(next.path(damaged), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if next.get(damaged) != nil || next.has(damaged) {
		t.Error("damaged content is used")
	}
}

func TestFolderThatCannotBeWrittenIsNobodysFault(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "x") })
	if _, err := open(t, Options{Plain: true, Private: here, CacheDir: dir}).Fetch(t.Context(), []string{to}, 10); whose(err) != "place" || !strings.Contains(err.Error(), "keep content") {
		t.Error(err)
	}
}
