package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/test/servertest"
)

const chatExample = "../../examples/chat"

// chatLine is what a page shows of a message.
type chatLine struct {
	Text      string
	Decisions []string
	Wrong     []string
	Words     string
	Ended     bool
}

// TestChatInABrowser follows the README of examples/chat and has its page open in
// Chromium: messages are typed before the gateway is killed, while it is away and
// after it was started again, and in a second tab. What the pages show is what the log
// has, each once. AFTERBAY_PICTURE names the file of a picture to be made.
func TestChatInABrowser(t *testing.T) {
	if apart(t) {
		return
	}
	modules := servertest.NodeModules(t)
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("there is no chromium: make deps installs it")
	}
	script, err := filepath.Abs("testdata/chat.mjs")
	if err != nil {
		t.Fatal(err)
	}
	page, gateway, start := chatFolder(t)
	serving, out := start()
	out.wait(t, "clients connect to")
	node := exec.CommandContext(t.Context(), "node", script, modules, browser, "http://"+page, os.Getenv("AFTERBAY_PICTURE"))
	var saw struct {
		Ask                       string
		First, Second, Tab, Again []chatLine
		Growth                    map[string][]int
		Session                   struct{ Token string }
		Problems                  []string
	}
	talk(t, node, func(line []byte) {
		saw.Ask = ""
		if err := json.Unmarshal(line, &saw); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		switch saw.Ask {
		case "kill":
			_ = serving.Process.Kill()
			_ = serving.Wait()
		case "start":
			serving, _ = start()
		}
	})
	if t.Failed() {
		return
	}
	lines := chatLog(t, gateway, saw.Session.Token)
	if len(lines) != 7 || len(saw.Problems) > 0 {
		t.Errorf("the log has %d messages, the pages say %q", len(lines), saw.Problems)
	}
	for name, got := range map[string][]chatLine{"first": saw.First, "second": saw.Second, "tab": saw.Tab, "again": saw.Again} {
		if want := lines[:min(len(got), len(lines))]; len(got) < 5 || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s page shows\n%v, the log has\n%v", name, got, want)
		}
	}
	if grown := saw.Growth["Good morning to you"]; len(grown) < 3 || !slices.IsSorted(grown) {
		t.Errorf("words came as %d", grown)
	}
}

// TestAttemptsOfWordsSurviveKills kills the process twice while a model speaks: each
// time it is asked again, by an attempt of the next number.
func TestAttemptsOfWordsSurviveKills(t *testing.T) {
	if apart(t) {
		return
	}
	page, gateway, start := chatFolder(t)
	serving, out := start()
	out.wait(t, "clients connect to")
	var session struct{ Client, Token string }
	cookies, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	known := func() { // its tokens last a minute
		if err := json.Unmarshal(chatPost(t, &http.Client{Jar: cookies}, "http://"+page+"/session", "", ""), &session); err != nil {
			t.Fatal(err)
		}
	}
	from := "from=earliest"
	for n := range 10 { // where the machine is slow an answer may be whole before the kill
		known()
		chatPost(t, http.DefaultClient, "http://"+gateway+"/v1/events", session.Token, fmt.Sprintf(`{"type":"event","eventId":"e%d","payload":{"room":%q,"text":"Tell me"}}`, n, session.Client))
		said := spoken{event: fmt.Sprint("e", n)}
		for began := time.Now(); !said.ended; known() {
			if time.Since(began) > 2*time.Minute {
				t.Fatalf("%+v has no end", said)
			}
			before := said.attempt
			for r := range chatPage(t, gateway, session.Token, &from) {
				said.take(t, r)
			}
			if said.attempt > before && said.attempt < 3 && !said.ended {
				_ = serving.Process.Kill()
				_ = serving.Wait()
				serving, out = start()
				out.wait(t, "clients connect to")
			}
		}
		if said.attempt == 3 {
			return
		}
	}
	t.Error("no answer was cut twice")
}

// spoken is what came of an event.
type spoken struct {
	event            string
	attempt, letters int // of the newest words
	ended            bool
}

func (s *spoken) take(t *testing.T, r *wire.ResultFrame) {
	t.Helper()
	var said struct {
		Words *string `json:"writer_words"`
	}
	if err := json.Unmarshal(r.Payload, &said); err != nil {
		t.Fatal(err)
	}
	switch {
	case s.ended || r.EventID != s.event:
		t.Errorf("behind %+v comes %+v", s, r)
	case r.Status == wire.StatusOK:
		s.ended = true
	case said.Words == nil:
		if r.Attempt != 0 {
			t.Errorf("the decision, which is made once, is of attempt %d", r.Attempt)
		}
	case r.Attempt == s.attempt+1, r.Attempt == s.attempt && len(*said.Words) > s.letters:
		s.attempt, s.letters = r.Attempt, len(*said.Words)
	default:
		t.Errorf("behind %+v comes %q of attempt %d", s, *said.Words, r.Attempt)
	}
}

// chatPost returns what a POST is answered.
func chatPost(t *testing.T, client *http.Client, url, token, body string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		t.Fatalf("%s: %s %v: %s", url, response.Status, err, answer)
	}
	return answer
}

// chatFolder makes the working directory a copy of the example, at addresses that are
// free, and serves its page. What it returns starts pipeline and gateway.
func chatFolder(t *testing.T) (page, gateway string, start func() (*exec.Cmd, *screen)) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "chat")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-C", chatExample, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	example, err := filepath.Abs(chatExample)
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(read(t, filepath.Join(example, "README.md")), "```\n")
	block, _, _ = strings.Cut(block, "```")
	first, second, _ := strings.Cut(strings.ReplaceAll(block, "examples/chat/", ""), "\n")
	if strings.TrimSpace(first) != "go -C examples run ./chat --folder chat" || !strings.HasPrefix(second, "go run ./cmd/afterbay run ") {
		t.Fatalf("the README has other commands: %s", block)
	}
	page, gateway = freeAddress(t), freeAddress(t)
	t.Chdir(t.TempDir())
	replaced := strings.NewReplacer("127.0.0.1:8090", page, "127.0.0.1:8088", gateway, "../moderation", filepath.Join(example, "../moderation"))
	for _, name := range []string{"pipeline.yaml", "writer.yaml", "gateway.yaml", "keys.yaml"} {
		write(t, name, replaced.Replace(read(t, filepath.Join(example, name))))
	}
	out := newScreen()
	server := exec.CommandContext(t.Context(), binary, "--folder", ".", "--listen", page, "--gateway", "ws://"+gateway)
	server.Stdout, server.Stderr = out, out
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Wait() }) // the test's context ends it
	out.wait(t, "the page is")
	args := append(strings.Fields(second)[3:], "--listen", "127.0.0.1:0")
	return page, gateway, func() (*exec.Cmd, *screen) {
		c, out := killable(t, args...)
		t.Cleanup(func() {
			_ = c.Wait()
			if t.Failed() {
				t.Logf("afterbay: %s", out)
			}
		})
		return c, out
	}
}

// freeAddress returns one that is free again when a process that was killed comes back.
func freeAddress(t *testing.T) string {
	t.Helper()
	return fmt.Sprint("127.0.0.1:", servertest.FreePorts(t, 1)[0])
}

// piped starts a command, and returns its standard input and output.
func piped(t *testing.T, c *exec.Cmd) (io.WriteCloser, io.Reader) {
	t.Helper()
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return in, out
}

// talk runs a command, hears its lines and answers each by one.
func talk(t *testing.T, c *exec.Cmd, hear func(line []byte)) {
	t.Helper()
	errors := newScreen()
	c.Stderr = errors
	in, out := piped(t, c)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		hear(lines.Bytes())
		_, _ = io.WriteString(in, "\n") // it may be gone
	}
	if err := c.Wait(); err != nil || lines.Err() != nil {
		t.Errorf("%v, %v: %s", err, lines.Err(), errors)
	}
}

// chatLog returns what a client's results are to be shown as, and checks that they
// have numbers without holes, and each event one end.
func chatLog(t *testing.T, address, token string) (lines []chatLine) {
	t.Helper()
	at, ended := map[string]int{}, map[string]bool{}
	seq := uint64(0)
	for from, more := "from=earliest", true; more; {
		more = false
		for r := range chatPage(t, address, token, &from) {
			seq, more = seq+1, true
			if r.Seq != seq || r.Status != wire.StatusOK && r.Status != wire.StatusPartial || ended[r.EventID] && !r.Duplicate {
				t.Fatalf("result %+v after %d, %v", r, seq-1, ended)
			}
			if _, known := at[r.EventID]; !known {
				at[r.EventID], lines = len(lines), append(lines, chatLine{Wrong: []string{}, Ended: true})
			}
			if ended[r.EventID] = r.Status == wire.StatusOK; !ended[r.EventID] {
				continue
			}
			var payload struct{ Text, Action, Words string }
			if err := json.Unmarshal(r.Payload, &payload); err != nil {
				t.Fatal(err)
			}
			line := &lines[at[r.EventID]]
			line.Text, line.Decisions, line.Words = payload.Text, []string{payload.Action}, payload.Words
		}
	}
	return lines
}

// chatPage yields the results of one answer of the gateway, and moves from behind it.
func chatPage(t *testing.T, address, token string, from *string) iter.Seq[*wire.ResultFrame] {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/v1/results?wait=1s&"+*from, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	*from = "cursor=" + url.QueryEscape(response.Header.Get(gateway.CursorHeader))
	return func(yield func(*wire.ResultFrame) bool) {
		defer response.Body.Close()
		for decoder := json.NewDecoder(response.Body); ; {
			r := new(wire.ResultFrame)
			if err := decoder.Decode(r); err == io.EOF {
				return
			} else if err != nil {
				t.Fatal(err)
			}
			if !yield(r) {
				return
			}
		}
	}
}
