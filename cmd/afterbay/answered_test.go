package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// talkPipeline counts by room, and has nothing to say to those that are quiet.
const talkPipeline = `pipeline: talk
input: {topic: said, partitions: 2, key: room, fields: {room: string, text: string}}
replies: [shown]
steps:
  - features: {said: {windows: [1h], aggregates: [count]}}
  - route:
      quiet: {when: 'text == ""', steps: drop}
      default:
        steps:
          - emit: {topic: shown, value: [room, text, said.count_1h]}
`

// judgePipeline reads what talkPipeline shows.
const judgePipeline = `pipeline: judge
input: {topic: shown, key: room, fields: {room: string, text: string}, time: {late: {topic: late}}}
replies: [judged]
steps:
  - emit: {topic: judged, value: [room, text]}
`

// talkFolder makes the working directory one with a gateway that fits a pipeline.
func talkFolder(t *testing.T) {
	t.Helper()
	gatewayFolder(t)
	write(t, "talk.yaml", talkPipeline)
	write(t, "shown.avsc", `{"type":"record","name":"Shown","fields":[{"name":"room","type":"string"},{"name":"text","type":"string"}]}`)
	write(t, "gateway.yaml", strings.Replace(gatewayFile, "input: posts, outputs: [decisions], dead_letters: [moderation.dlq]", "input: said, outputs: [shown, talk.ended], dead_letters: [talk.dlq]", 1))
}

// TestLintComparesGatewaysWithPipelines changes one of both files, or both.
func TestLintComparesGatewaysWithPipelines(t *testing.T) {
	talkFolder(t)
	talk, gateway := "talk.yaml: pipeline talk is valid", "gateway.yaml: gateway chat is valid: clients' events go to said, keyed by room, of pipeline talk"
	write(t, "judge.yaml", judgePipeline)
	write(t, "read.yaml", strings.NewReplacer("pipeline: judge", "pipeline: read", "topic: shown, key: room", "topic: said, key: text", ", time: {late: {topic: late}}", "", "judged", "read").Replace(judgePipeline))
	for name, c := range map[string]struct {
		change []string // old and new text, of either file
		more   string   // files
		want   []string // findings, or what is printed where there are none
	}{
		"right":          {nil, "", []string{talk, gateway + ", and each of them ends in a result"}},
		"ends unread":    {[]string{", talk.ended", ""}, "", []string{`gateway.yaml:3:25: pipeline.outputs: the gateway does not read topic "talk.ended": events of clients that pipeline "talk" ends there would only expire: add it: outputs: [shown, talk.ended]`}},
		"letters unread": {[]string{", dead_letters: [talk.dlq]", ""}, "", []string{`gateway.yaml:3:1: pipeline.dead_letters: the gateway does not read topic "talk.dlq"`}},
		"letters as results": {[]string{"[shown, talk.ended], dead_letters: [talk.dlq]", "[shown, talk.ended, talk.dlq]"}, "", []string{
			`gateway.yaml:3:25: pipeline.outputs: topic "talk.dlq" of pipeline "talk" is not a topic of outputs: name it in dead_letters instead`,
		}},
		"to expire": {[]string{", talk.ended], dead_letters: [talk.dlq]", "], unreplied: expire"}, "", []string{
			gateway + "\n", `gateway chat: warning: the gateway does not read topic "talk.ended"`, `gateway chat: warning: the gateway does not read topic "talk.dlq"`,
		}},
		"no answers": {[]string{"replies: [shown]\n", "", ", talk.ended", ""}, "", []string{
			`talk.yaml:6:7: steps[1].route.quiet: events are dropped: events of clients would only expire: let the pipeline end them in talk.ended, which the gateway reads as one of its outputs. Name the topics that reply to clients: replies: [shown]`,
		}},
		"no answers, to expire": {[]string{"replies: [shown]\n", "", ", talk.ended]", "], unreplied: expire"}, "", []string{"warning: pipeline talk, steps[1].route.quiet: events are dropped"}},
		"another topic": {[]string{"replies: [shown]\n", "", "[shown, talk.ended]", "[showed]"}, "", []string{
			"talk.yaml:3:1: steps: events may reach the end of the steps without a reply", "talk.yaml:6:7: steps[1].route.quiet", `gateway.yaml:3:35: pipeline.outputs[0]: no pipeline here writes topic "showed": they write shown, talk.dlq`,
		}},
		"another input": {[]string{"input: said,", "input: posts,"}, "", []string{`gateway.yaml:3:19: pipeline.input: no pipeline here reads topic "posts"`}},
		"copied":        {[]string{"key: room", "key: room, repartition: 2"}, "", []string{"clients' events go to said of pipeline talk, and each"}},
		"by two keys": {[]string{"[shown, talk.ended], dead_letters: [talk.dlq]", "[shown, talk.ended, read, read.ended], dead_letters: [talk.dlq, read.dlq]"}, "read.yaml", []string{
			`read.yaml:2:27: input.key: topic "said" is keyed by "room" for an earlier pipeline of the chain: events of clients would be dead letters here: repartition them by text: add ` + "`repartition: 4` to the input",
		}},
		"written elsewhere": {[]string{", dead_letters", ", partials: [tokens], dead_letters"}, "", []string{talk, `warning: pipeline.partials[0]: no pipeline here writes topic "tokens"`}},
		"a chain": {[]string{"outputs: [shown, talk.ended], dead_letters: [talk.dlq]", "outputs: [judged, talk.ended, judge.ended], dead_letters: [talk.dlq, judge.dlq], late: [late]"}, "judge.yaml", []string{
			"go to said, keyed by room, of pipeline talk, judge, and each of them ends in a result",
		}},
		"half a chain": {[]string{"outputs: [shown,", "outputs: [judged,"}, "judge.yaml", []string{
			`pipeline.outputs: the gateway does not read topic "judge.ended"`, `pipeline.dead_letters: the gateway does not read topic "judge.dlq"`, `pipeline.late: the gateway does not read topic "late"`,
		}},
		"of another format": {[]string{"replies: [shown]\n", "", "value: [room, text, said.count_1h]}", "value: [room, text], format: {avro: shown.avsc}}", ", talk.ended], dead_letters: [talk.dlq]", "], unreplied: expire"}, "", []string{
			`gateway.yaml:3:35: pipeline.outputs[0]: pipeline "talk" writes topic "shown" with a format, and clients get JSON: let the pipeline write the replies to a separate topic without a format`,
		}},
		"of a shape that hides nothing": {[]string{"listen:", "listn:", ", talk.ended", ""}, "", []string{`gateway.yaml:2:1: listn: unknown word "listn"`, `pipeline.outputs: the gateway does not read topic "talk.ended"`}},
	} {
		pipelineText, gatewayText := talkPipeline, strings.Replace(gatewayFile, "input: posts, outputs: [decisions], dead_letters: [moderation.dlq]", "input: said, outputs: [shown, talk.ended], dead_letters: [talk.dlq]", 1)
		replace := strings.NewReplacer(c.change...)
		write(t, "talk.yaml", replace.Replace(pipelineText))
		write(t, "gateway.yaml", replace.Replace(gatewayText))
		r := command(t, "", append([]string{"lint", "talk.yaml", "gateway.yaml"}, strings.Fields(c.more)...)...)
		said, wrong := r.stderr, strings.Contains(c.want[0], "yaml:") && !strings.Contains(c.want[0], " is valid") || strings.HasPrefix(c.want[0], "pipeline.")
		if !wrong {
			said = r.stdout
		}
		if findings := strings.Count(r.stderr, "\n      | "); wrong != (r.code == exitInvalid) || wrong && findings != len(c.want) {
			t.Errorf("%s: exit %d, %d findings, want %d:\n%s%s", name, r.code, findings, len(c.want), r.stdout, r.stderr)
		}
		for _, want := range c.want {
			if !strings.Contains(said, want) {
				t.Errorf("%s: no %q in\n%s%s", name, want, r.stdout, r.stderr)
			}
		}
		var run result
		if wrong && c.more == "" && !slices.Contains(c.change, "listn:") {
			if run = command(t, "", "run", "talk.yaml", "--gateway", "gateway.yaml", "--listen", "none"); run.code != exitInvalid || !strings.Contains(run.stderr, c.want[0]) {
				t.Errorf("%s: run: exit %d: %s", name, run.code, run.stderr)
			}
		}
	}
}

// TestLintFindsWhatGatewaysName checks the file without a pipeline, and those that it
// names: all at once.
func TestLintFindsWhatGatewaysName(t *testing.T) {
	talkFolder(t)
	if out := must(t, "", "lint", "gateway.yaml"); out != "gateway.yaml: gateway chat is valid: clients' events go to said\n" {
		t.Error(out)
	}
	t.Setenv("SHORT", "guess me")
	write(t, "keys.yaml", "keys: [{id: k1, secret: '${SHORT}', audience: chat}]\n")
	write(t, "gateway.yaml", strings.Replace(gatewayFile, "CURSOR_KEY", "SHORT", 1)+"engine: {url: 'kafka://broker:9092', ca: ca.pem}\ncert: none.pem\nkey: none.key\n")
	write(t, "broken.yaml", "gateway: [\n")
	r := command(t, "", "lint", "--json", "gateway.yaml", "broken.yaml", "nowhere.yaml")
	var got []string
	for _, f := range findingsOf(t, r) {
		if got = append(got, fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Path)); f.Hint == "" || f.Message == "" {
			t.Errorf("%+v lacks a part", f)
		}
	}
	want := []string{"gateway.yaml:5: cursor_key", "gateway.yaml:8: engine.ca", "gateway.yaml:9: cert", "keys.yaml:1: keys[0].secret", "broken.yaml:1: ", "nowhere.yaml:0: "}
	if r.code != exitInvalid || !slices.Equal(got, want) || strings.Contains(r.stdout, "guess me") {
		t.Errorf("exit %d, %q, want %q", r.code, got, want)
	}
}

// TestGatewayOfItsOwnProcessSeesUnreadEnds by the topics that are there, which somebody
// made before the pipeline was started.
func TestGatewayOfItsOwnProcessSeesUnreadEnds(t *testing.T) {
	talkFolder(t)
	engine := fakeEngine(t, kfake.SeedTopics(2, "said", "shown", "talk.ended", "talk.dlq"))
	const early = `gateway.yaml:3:19: pipeline.input: no pipeline has read topic "said" yet, so its key is unknown: start the pipeline first`
	if r := command(t, "", "gateway", "gateway.yaml", "--engine", engine, "--admin", "127.0.0.1:0"); r.code != exitInvalid || !strings.Contains(r.stderr, early) {
		t.Errorf("before the pipeline: %+v", r)
	}
	running, end := background(t, "run", "talk.yaml", "--engine", engine, "--listen", "127.0.0.1:0")
	running.wait(t, "next, in another terminal")
	file := strings.Replace(gatewayFile, "input: posts, outputs: [decisions], dead_letters: [moderation.dlq]", "input: said, outputs: OUTPUTS", 1)
	for _, c := range [][2]string{
		{"[shown], dead_letters: [talk.dlq]", `gateway.yaml:3:25: pipeline.outputs: the gateway does not read topic "talk.ended"`},
		{"[shown, talk.ended]", `gateway.yaml:3:1: pipeline.dead_letters: the gateway does not read topic "talk.dlq"`},
	} {
		write(t, "gateway.yaml", strings.Replace(file, "OUTPUTS", c[0], 1))
		if r := command(t, "", "gateway", "gateway.yaml", "--engine", engine, "--admin", "127.0.0.1:0"); r.code != exitInvalid || !strings.Contains(r.stderr, c[1]) {
			t.Errorf("%s: %+v", c[0], r)
		}
	}
	write(t, "gateway.yaml", strings.Replace(file, "OUTPUTS", "[shown, talk.ended], unreplied: expire", 1))
	out, endGateway := background(t, "gateway", "gateway.yaml", "--engine", engine, "--admin", "127.0.0.1:0")
	out.wait(t, "/v1/clients")
	if code := endGateway(); code != exitOK {
		t.Errorf("the gateway ended with %d: %s", code, out)
	}
	if code := end(); code != exitOK {
		t.Errorf("the pipeline ended with %d: %s", code, running)
	}
}
