package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/afterbay/afterbay/internal/lab/demo/support"
	"github.com/afterbay/afterbay/internal/test/servertest"
)

var supportComplaints = flag.Int("support.complaints", 6, "complaints of the test of examples/support")

// TestWhatCustomersSendIsFoundInOneTable runs examples/support with real models and
// a real database. The pipeline is a process of its own that has the bytes of
// contacts alone: what they mean is known here, and in no file.
func TestWhatCustomersSendIsFoundInOneTable(t *testing.T) {
	if apart(t) {
		return
	}
	speech(t, "hello") // or else it is skipped
	server := servertest.Postgres(t)
	home, err := os.Getwd()
	asrFolder(t)
	listener, err1 := os.Getwd()
	if err := errors.Join(err, err1); err != nil {
		t.Fatal(err)
	}
	t.Chdir(home)
	supportFolder(t)
	for _, name := range []string{"asr.py", "calls.jsgf", "worker.py"} {
		write(t, name, read(t, filepath.Join(listener, name)))
	}
	objects, err := filepath.Abs("objects")
	if err = errors.Join(err, os.Mkdir("objects", 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OBJECTS", objects)
	t.Setenv("DATABASE_URL", server.URL)
	g, err := support.NewGenerator(support.Options{Seed: 1, Complaints: *supportComplaints, Chats: 3 * *supportComplaints, Faults: 1, Objects: objects})
	var events bytes.Buffer
	for err == nil {
		var line []byte
		if line, err = g.Next(t.Context()); err == nil {
			events.Write(append(line, '\n'))
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	truth, customers := g.Truth(), (*supportComplaints+4)/5
	for i := range customers { // an hour later, which ends what waits for more
		bye := support.Contact{ID: fmt.Sprint("bye-", i), Kind: "chat", Customer: fmt.Sprintf("c%05d", i), Text: "bye"}
		fmt.Fprintf(&events, "{\"kind\":\"chat\",\"contact\":%q,\"customer\":%q,\"ts\":1760003600000,\"text\":%q}\n", bye.ID, bye.Customer, bye.Text)
		truth = append(truth, bye)
	}
	must(t, events.String(), "produce", "contacts", "--partitions", "4", "--key", "customer")
	process, out := killable(t, "run", "pipeline.yaml", "--listen", "none", "--until-idle")
	if err := process.Wait(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	conn, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	checkArtifacts(t, conn, truth)
	letters := must(t, "", "tail", "support.dlq", "--headers")
	for reason, want := range map[string]int{ // "late" and "late chunk" are late; groups lack a chunk, an end, or the late one
		`"afterbay-stage","decode"`: 1, `"afterbay-stage","late"`: 2, `"afterbay-stage","group"`: 3, "a damaged image": 2, "case silent_audio is a dead letter": 1, "truncated: ": 1, "ValueError": 0,
	} {
		if n := strings.Count(letters, reason); n != want {
			t.Errorf("%d dead letters of %s, want %d", n, reason, want)
		}
	}
	if t.Failed() {
		t.Logf("%s\n%s", out, letters)
	}
	checkQueries(t, conn, truth)
	checkAnswer(t, truth)
}

// checkAnswer has answers.yaml find what was sent of the first complaint.
func checkAnswer(t *testing.T, truth []support.Contact) {
	t.Helper()
	for _, c := range truth {
		if c.Kind == "call" && c.Query != "" {
			answer := must(t, fmt.Sprintf(`{"customer":%q,"text":%q}`, c.Customer, c.Query), "try", "answers.yaml")
			if _, near, _ := strings.Cut(answer, `"near_id":[`); strings.Count(near, "-0") < 3 {
				t.Errorf("%s", answer)
			}
			return
		}
	}
}

// checkArtifacts compares the table with the truth: each contact that nothing is
// wrong with is there once.
func checkArtifacts(t *testing.T, conn *pgx.Conn, truth []support.Contact) {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT id, customer, body FROM artifacts")
	if err != nil {
		t.Fatal(err)
	}
	type artifact struct{ ID, Customer, Body string }
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[artifact])
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]artifact{}
	for _, a := range list {
		got[a.ID] = a
	}
	wrong, words, misread := 0, 0, 0
	for _, c := range truth {
		a, ok := got[c.ID]
		if delete(got, c.ID); ok != (c.Fault == "") {
			t.Errorf("%s %s, fault %q: is there: %v", c.Kind, c.ID, c.Fault, ok)
		}
		if !ok {
			continue
		}
		if a.Customer != c.Customer {
			t.Errorf("%+v is of %s", c, a.Customer)
		}
		letters := func(text string) string { return strings.Join(strings.Fields(text), "") }
		switch c.Kind {
		case "chat":
			if a.Body != c.Text {
				t.Errorf("%q, want %q", a.Body, c.Text)
			}
		case "image":
			if letters(a.Body) != letters(c.Text) { // it leaves out spaces
				misread++
				t.Logf("screenshot %q is read as %q", c.Text, a.Body)
			}
		case "call":
			said := strings.Fields(c.Text)
			words += len(said)
			wrong += wordErrors(said, strings.Fields(a.Body))
		}
	}
	for id, a := range got {
		t.Errorf("%s is of nobody: %+v", id, a)
	}
	t.Logf("of %d words in calls %d are wrong: %.1f %%; %d screenshots are misread", words, wrong, 100*float64(wrong)/float64(max(words, 1)), misread)
	if wrong*100 > 35*words || misread*10 > len(truth) {
		t.Errorf("too much is misunderstood")
	}
}

// checkQueries asks for each complaint what its customer sent of it.
func checkQueries(t *testing.T, conn *pgx.Conn, truth []support.Contact) {
	t.Helper()
	var queries, lines []string
	for _, c := range truth {
		if c.Query != "" && !slices.Contains(queries, c.Query) {
			queries = append(queries, c.Query)
			lines = append(lines, fmt.Sprintf(`{"customer":%q,"body":%q}`, strconv.Itoa(len(queries)), c.Query))
		}
	}
	write(t, "query.yaml", `pipeline: queries
input: {topic: queries, key: customer, fields: {customer: string, body: string}}
models: {embed: {file: minilm.yaml, version: 1, outputs: {vector: 'number[384]'}}}
steps:
  - score: {model: embed, inputs: {text: body}}
  - emit: {topic: asked, value: [embed.vector]}
`)
	vectors := vectorsOf(t, must(t, strings.Join(lines, "\n")+"\n", "try", "query.yaml", "--json"))
	found, asked := 0, 0
	for _, c := range truth {
		if c.Kind != "call" || c.Query == "" {
			continue
		}
		asked++
		vector := strings.ReplaceAll(fmt.Sprint(vectors[slices.Index(queries, c.Query)]), " ", ",")
		rows, err := conn.Query(t.Context(), "SELECT id FROM artifacts WHERE customer = $1 ORDER BY embed_vector <=> $2::vector LIMIT 3", c.Customer, vector)
		if err != nil {
			t.Fatal(err)
		}
		near, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		all := true
		for _, of := range truth {
			all = all && (of.Complaint != c.Complaint || of.Kind == "chat" || slices.Contains(near, of.ID))
		}
		if all {
			found++
		} else {
			t.Logf("%s asks for %q and finds %v", c.Customer, c.Query, near)
		}
	}
	t.Logf("of %d complaints %d find their screenshot and their call among the first three", asked, found)
	if found*5 < asked*4 {
		t.Errorf("only %d of %d complaints are found", found, asked)
	}
}
