package scenario

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/afterbay/afterbay/stream"
)

// Limits of a scenario.
const (
	fileMaxBytes  = 1 << 20
	eventsMax     = 100_000
	partitionsMax = 64
)

// Scenario is a parsed scenario file.
type Scenario struct {
	name        string
	lines       []string
	partitions  int32
	environment map[string]string
	shown       map[string]bool
	commands    []command
}

// command is one line of a scenario with the lines indented below it.
type command struct {
	line   int // from 1
	word   string
	rest   string   // rest of the line
	args   []string // words of rest; not set for an event or a row
	event  *event
	row    *stream.Record // row of a table
	below  []string       // lines without their indentation
	indent int            // indentation of the block, in bytes
}

// event is an event as written in a scenario.
type event struct {
	topic     string // "" is the topic of the first input
	at        time.Time
	timed     bool // the scenario gives a time, so record adds the time field
	appended  time.Time
	key       *string
	partition int32
	headers   []stream.Header
	value     []byte
	times     int
	every     time.Duration
}

// Error is one error in a scenario file.
type Error struct {
	File    string
	Line    int // from 1
	Message string
}

// Error returns the position and the message.
func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message) }

// word is a command and the maximum number of words after it; -1 is any number.
type word struct {
	name string
	args int
}

// words are the commands, in the order of the reference page.
var words = []word{
	{"pipeline", 1}, {"partitions", 1}, {"env", -1}, {"show", -1},
	{"event", -1}, {"row", -1}, {"crash", 1}, {"state", 2}, {"watermark", 1}, {"counts", 1},
}

// stages are the points in an iteration of the pipeline's loop where a process can be killed.
var stages = []string{"read", "model", "write", "sync", "after"}

// shows are the words that a show command can name.
var shows = []string{"id", "key", "time", "partition", "watermark", "row", "headers"}

type parser struct {
	*Scenario
	now      time.Time // time of the newest event
	events   int
	inFlight bool // an event precedes this line and no command has waited for it
	errs     []error
}

func (p *parser) fail(line int, format string, args ...any) {
	if len(p.errs) < 20 {
		p.errs = append(p.errs, &Error{p.name, line, fmt.Sprintf(format, args...)})
	}
}

// day is the date of times that are written without a date.
var day = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Parse parses the text of a scenario. name is the path of its file: messages begin with it, and
// relative paths start from its folder. Parse returns all errors of the text together, each an
// *Error.
func Parse(name string, text []byte) (*Scenario, error) {
	p := &parser{Scenario: &Scenario{name: name, partitions: 1, environment: map[string]string{}, shown: map[string]bool{}}, now: day}
	switch {
	case len(text) > fileMaxBytes:
		return nil, &Error{name, 1, "the file is larger than 1 MiB"}
	case !utf8.Valid(text):
		return nil, &Error{name, 1, "the file is not UTF-8: write other bytes as value=\"\\xff\""}
	}
	p.lines = strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	p.split()
	for i := range p.commands {
		p.command(&p.commands[i])
	}
	if !slices.ContainsFunc(p.commands, func(c command) bool { return c.word == "pipeline" }) {
		p.fail(1, "there is no pipeline: name a file, as in pipeline fraud.yaml, or write one indented below a line pipeline")
	}
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	return p.Scenario, nil
}

// split finds the commands and the lines indented below each.
func (p *parser) split() {
	for i, line := range p.lines {
		trimmed := strings.TrimSpace(line)
		last := len(p.commands) - 1
		switch {
		case trimmed == "":
			if last >= 0 && p.commands[last].word == "pipeline" && len(p.commands[last].below) > 0 {
				p.commands[last].below = append(p.commands[last].below, "")
			}
		case line[0] == '#':
		case line[0] != ' ' && line[0] != '\t':
			word, rest := line, ""
			if end := strings.IndexAny(line, " \t"); end > 0 {
				word, rest = line[:end], strings.TrimSpace(line[end:])
			}
			p.commands = append(p.commands, command{line: i + 1, word: word, rest: rest})
		case last < 0:
			p.fail(i+1, "an indented line needs a command above it")
		default:
			p.below(&p.commands[last], i+1, line)
		}
	}
}

// words splits the text after a command into words.
func (p *parser) words(line int, text string) (all []string) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		word, rest, err := nextWord(text)
		if err != nil {
			p.fail(line, "%v", err)
			return all
		}
		all, text = append(all, word), rest
	}
	return all
}

func (p *parser) below(c *command, number int, line string) {
	if c.word != "pipeline" {
		if number != c.line+len(c.below)+1 {
			p.fail(number, "write results directly below their command, without a line between")
		}
		c.below = append(c.below, strings.TrimSpace(line))
		return
	}
	if c.indent == 0 {
		c.indent = len(line) - len(strings.TrimLeft(line, " "))
		for range number - c.line - 1 { // comments or empty lines between them
			c.below = append(c.below, "")
		}
	}
	if c.indent == 0 || len(line) < c.indent || strings.TrimSpace(line[:c.indent]) != "" {
		p.fail(number, "the lines of a pipeline are indented by spaces, at least as far as its first line")
		return
	}
	for len(c.below) < number-c.line-1 {
		c.below = append(c.below, "")
	}
	c.below = append(c.below, line[c.indent:])
}

func (p *parser) command(c *command) {
	i := slices.IndexFunc(words, func(w word) bool { return w.name == c.word })
	if i < 0 {
		known := make([]string, len(words))
		for n, w := range words {
			known[n] = w.name
		}
		p.fail(c.line, "unknown command %q: use %s", c.word, strings.Join(known, ", "))
		return
	}
	if c.word != "event" && c.word != "row" {
		c.args = p.words(c.line, c.rest)
	}
	if most := words[i].args; most >= 0 && len(c.args) > most {
		p.fail(c.line, "%s takes at most %d words", c.word, most)
		return
	}
	arg := ""
	if len(c.args) > 0 {
		arg = c.args[0]
	}
	switch c.word {
	case "pipeline":
		if (arg == "") == (len(c.below) == 0) {
			p.fail(c.line, "a pipeline is a file's name, or YAML indented below")
		}
		if p.events > 0 {
			p.fail(c.line, "write pipelines above the first event")
		}
	case "partitions":
		n, err := strconv.Atoi(arg)
		if err != nil || n < 1 || n > partitionsMax {
			p.fail(c.line, "partitions takes a number from 1 to %d", partitionsMax)
			n = 1
		}
		p.partitions = int32(n)
	case "show":
		for _, name := range c.args {
			if !slices.Contains(shows, name) {
				p.fail(c.line, "unknown %q: show takes %s", name, strings.Join(shows, ", "))
			}
			p.shown[name] = true
		}
	case "env":
		for _, word := range c.args {
			name, value, ok := strings.Cut(word, "=")
			if !ok || name == "" {
				p.fail(c.line, "env takes variables as NAME=value")
			}
			p.environment[name] = value
		}
	case "event":
		p.event(c)
	case "row":
		p.row(c)
	case "state":
		if arg == "" {
			p.fail(c.line, "state takes a key, and a pipeline if there are several")
		}
		p.inFlight = false
	case "crash":
		p.crash(c, arg)
	}
}

// row reads a row of a table. The run processes everything above the row first.
func (p *parser) row(c *command) {
	var names [2]string
	value := strings.TrimSpace(c.rest)
	for i := range names {
		if value == "" {
			p.fail(c.line, "row takes a table, a key and a JSON object; without the object the row is deleted")
			return
		}
		word, rest, err := nextWord(value)
		if err != nil {
			p.fail(c.line, "%v", err)
			return
		}
		names[i], value = word, strings.TrimSpace(rest)
	}
	if len(c.below) > 0 {
		p.fail(c.line, "a row has no results: they stand below the events that see it")
	}
	c.row = &stream.Record{Partition: stream.Partition{Topic: names[0], Index: stream.ByKey}, Time: p.now, Key: []byte(names[1])}
	if value != "" {
		c.row.Value = []byte(value)
	}
	p.inFlight = false
}

func (p *parser) crash(c *command, stage string) {
	if stage == "" {
		c.args = []string{"write"}
	} else if !slices.Contains(stages, stage) {
		p.fail(c.line, "unknown stage %q: use %s", stage, strings.Join(stages, ", "))
	}
	if !p.inFlight {
		p.fail(c.line, "nothing is in flight that a crash could interrupt: put an event above it")
	}
	p.inFlight = false
}

// path resolves a path relative to the scenario's folder.
func (s *Scenario) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(s.name), name)
}
