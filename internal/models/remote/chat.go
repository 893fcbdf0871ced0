package remote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/model"
)

// said is a server's answer in words.
type said struct {
	text string
	cut  bool // truncated at the token limit
}

// chat asks a question for each row.
type chat struct {
	openAI
	prompt []piece
	format json.RawMessage // response format if the answer is not a single text; else nil
	tokens *tokens
}

func newChat(o *Options, to *url.URL) (*chat, error) {
	prompt, err := parseTemplate(o.Chat.Prompt, o.Inputs)
	if err != nil {
		return nil, err
	}
	if len(o.Outputs) == 1 && o.Outputs[0].Text() {
		return &chat{newOpenAI(o, to), prompt, nil, newTokens(o.Chat.Tokens)}, nil
	}
	properties, names := map[string]any{}, []string{}
	for _, out := range o.Outputs {
		kind := "number"
		if out.Text() {
			kind = "string"
		}
		properties[out.Name] = map[string]string{"type": kind}
		names = append(names, out.Name)
	}
	format, err := json.Marshal(map[string]any{"type": "json_schema", "json_schema": map[string]any{
		"name": "scores", "strict": true,
		"schema": map[string]any{"type": "object", "properties": properties, "required": names, "additionalProperties": false},
	}})
	return &chat{newOpenAI(o, to), prompt, format, newTokens(o.Chat.Tokens)}, err
}

// piece is a text of a prompt, or a value of a row.
type piece struct {
	text   string
	column int // index in the row's bytes or numbers; -1 for text
	number bool
}

// parseTemplate parses a prompt. Braces around anything but the name of an input are text.
func parseTemplate(prompt string, inputs []model.Input) ([]piece, error) {
	if strings.TrimSpace(prompt) == "" {
		return nil, errors.New("no prompt: it is the question, with {name} for the value of an input")
	}
	columns := map[string]piece{}
	numbers, texts := 0, 0
	for _, in := range inputs {
		switch {
		case in.Shape != nil || in.Type == model.Bytes:
			return nil, fmt.Errorf("input %q: a prompt takes single numbers and texts", in.Name)
		case in.Type == model.Number:
			columns[in.Name] = piece{column: numbers, number: true}
			numbers++
		default:
			columns[in.Name] = piece{column: texts}
			texts++
		}
	}
	var pieces []piece
	used := map[string]bool{}
	text := ""
	for rest := prompt; rest != ""; {
		before, after, found := strings.Cut(rest, "{")
		text += before
		if !found {
			break
		}
		name, behind, _ := strings.Cut(after, "}")
		column, known := columns[name]
		if !known {
			text, rest = text+"{", after
			continue
		}
		pieces, text, rest = append(pieces, piece{text: text, column: -1}, column), "", behind
		used[name] = true
	}
	for _, in := range inputs {
		if !used[in.Name] {
			return nil, fmt.Errorf("the prompt has no {%s}", in.Name)
		}
	}
	return append(pieces, piece{text: text, column: -1}), nil
}

// question fills the values of a row into the prompt.
func (s *chat) question(values []float64, bytes [][]byte) string {
	var out strings.Builder
	for _, p := range s.prompt {
		switch {
		case p.column < 0:
			out.WriteString(p.text)
		case !p.number:
			out.Write(bytes[p.column])
		case math.IsNaN(values[p.column]):
			out.WriteString("unknown")
		default:
			out.WriteString(strconv.FormatFloat(values[p.column], 'g', -1, 64))
		}
	}
	return out.String()
}

func (s *chat) rowsMax() int { return 1 }

func (s *chat) ask(ctx context.Context, rows model.Rows, into model.Answer) error {
	values, bytes := rows.Row(0)
	var part func(string)
	if parts := model.CallOf(ctx).Part; parts != nil && s.format == nil {
		part = func(text string) { parts(0, text) }
	}
	answer, err := s.complete(ctx, values, bytes, part)
	if err != nil {
		return err
	}
	if s.format == nil {
		into.Texts[0] = []byte(answer.text)
		return nil
	}
	if err := s.read(answer, into); err != nil {
		return &Error{Fault: Unfit, Err: err}
	}
	return nil
}

// read reads the outputs from an answer. It accepts answers between code fences, as some models
// write them.
func (s *chat) read(answer said, into model.Answer) error {
	text := strings.TrimSpace(answer.text)
	if inner, ok := strings.CutPrefix(text, "```"); ok {
		text = strings.TrimSuffix(strings.TrimPrefix(inner, "json"), "```")
	}
	var object map[string]any
	switch err := json.Unmarshal([]byte(text), &object); {
	case err != nil && answer.cut:
		return fmt.Errorf("%s is cut at %d tokens", brief(text), s.options.Chat.Answer)
	case err != nil:
		return fmt.Errorf("%s is not an object of JSON: %w", brief(text), err)
	}
	scores, texts := into.Scores, into.Texts
	for _, out := range s.info.Outputs {
		if out.Text() {
			words, ok := object[out.Name].(string)
			if !ok {
				return fmt.Errorf("%s has no text %q", brief(text), out.Name)
			}
			texts[0], texts = []byte(words), texts[1:]
			continue
		}
		if err := floats(object[out.Name], scores[:1]); err != nil {
			return fmt.Errorf("%s has no number %q", brief(text), out.Name)
		}
		scores = scores[1:]
	}
	return nil
}

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type chatRequest struct {
	Model       string          `json:"model"`
	Messages    []chatMessage   `json:"messages"`
	Temperature *float64        `json:"temperature,omitempty"`
	MaxTokens   int             `json:"max_tokens,omitempty"`
	MaxAll      int             `json:"max_completion_tokens,omitempty"` // includes tokens of reasoning
	Format      json.RawMessage `json:"response_format,omitempty"`
	Stream      bool            `json:"stream,omitempty"`
}

// chatAnswer is an answer, or a piece of one.
type chatAnswer struct {
	Choices []struct {
		Message, Delta struct{ Content, Refusal *string }
		Finish         *string `json:"finish_reason"`
	}
	Error json.RawMessage
}

// complete sends a question as soon as its tokens fit the limit.
func (s *chat) complete(ctx context.Context, values []float64, bytes [][]byte, part func(string)) (said, error) {
	most := s.options.Chat.Answer
	request := chatRequest{Model: s.options.Model, Format: s.format}
	if s.options.Chat.Reasons {
		request.MaxAll = most
	} else {
		request.MaxTokens, request.Temperature = most, new(float64)
	}
	if s.options.Chat.System != "" {
		request.Messages = append(request.Messages, chatMessage{"system", s.options.Chat.System})
	}
	request.Messages = append(request.Messages, chatMessage{"user", s.question(values, bytes)})
	request.Stream = part != nil
	asked := 0
	for _, message := range request.Messages {
		asked += len(message.Content)/4 + 4
	}
	give, err := s.tokens.take(ctx, asked+most)
	if err != nil {
		return said{}, err
	}
	defer give()
	post, err := newPost(ctx, s.call("chat/completions"), request)
	if err != nil {
		return said{}, err
	}
	if part != nil {
		return s.stream(post, part)
	}
	body, _, err := s.do(post, answerRoom+64*int64(most))
	if err != nil {
		return said{}, err
	}
	var whole chatAnswer
	if err := json.Unmarshal(body, &whole); err != nil {
		return said{}, fault(Malformed, "the answer's JSON: %w", err)
	}
	answer, finished, err := whole.add(said{}, nil)
	if err == nil && !finished {
		return said{}, fault(Malformed, "an answer without an end")
	}
	return answer, err
}

// add adds a piece to an answer, and reports whether it was the last one.
func (c *chatAnswer) add(answer said, part func(string)) (_ said, finished bool, err error) {
	if len(c.Error) > 0 && !bytes.Equal(c.Error, []byte("null")) {
		return answer, true, fault(Failed, "%s", brief(refusal([]byte(`{"error":`+string(c.Error)+"}"))))
	}
	if len(c.Choices) == 0 { // a piece may have no text
		return answer, false, nil
	}
	choice := c.Choices[0]
	for _, refusal := range []*string{choice.Message.Refusal, choice.Delta.Refusal} {
		if refusal != nil && *refusal != "" {
			return answer, true, fault(Refused, "the model refuses: %s", brief(*refusal))
		}
	}
	for _, text := range []*string{choice.Message.Content, choice.Delta.Content} {
		if text != nil && *text != "" {
			answer.text += *text
			if part != nil {
				part(*text)
			}
		}
	}
	if choice.Finish == nil || *choice.Finish == "" {
		return answer, false, nil
	}
	if *choice.Finish == "content_filter" {
		return answer, true, fault(Refused, "the server's filter ended the answer")
	}
	answer.cut = *choice.Finish == "length"
	return answer, true, nil
}

// stream reads an answer sent as server-sent events.
func (s *chat) stream(post *http.Request, part func(string)) (said, error) {
	post.Header.Set("Accept", "text/event-stream")
	response, err := s.send(post)
	if err != nil {
		return said{}, err
	}
	defer response.Body.Close()
	most := answerRoom + 4096*int64(s.options.Chat.Answer) // a piece may be one token
	body := &io.LimitedReader{R: response.Body, N: most}
	lines := bufio.NewReader(body)
	var answer said
	var text strings.Builder
	finished := false
	for {
		line, err := lines.ReadBytes('\n')
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		if data = bytes.TrimSpace(data); ok && len(data) > 0 && err == nil {
			if bytes.Equal(data, []byte("[DONE]")) {
				break
			}
			var piece chatAnswer
			if err := json.Unmarshal(data, &piece); err != nil {
				return said{}, fault(Malformed, "a piece of the answer: %w", err)
			}
			var end bool
			answer.text = ""
			if answer, end, err = piece.add(answer, part); err != nil {
				return said{}, err
			}
			text.WriteString(answer.text)
			finished = finished || end
		}
		switch {
		case err == nil:
		case body.N <= 0:
			return said{}, fault(Malformed, "an answer of more than %d bytes", most)
		case finished && errors.Is(err, io.EOF): // without [DONE]
			answer.text = text.String()
			return answer, nil
		default:
			return said{}, fault(Unreachable, "the answer ended before its end: %w", err)
		}
	}
	if !finished {
		return said{}, fault(Unreachable, "the answer ended before its end")
	}
	answer.text = text.String()
	return answer, nil
}
