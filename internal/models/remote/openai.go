package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/afterbay/afterbay/model"
)

// openAI is a server that speaks one of OpenAI's APIs.
type openAI struct {
	web
	options *Options
	info    model.Info
	to      *url.URL
}

func newOpenAI(o *Options, to *url.URL) openAI {
	return openAI{newWeb(o), o, describe(o), to}
}

// describe returns the description of a model from its options.
func describe(o *Options) model.Info {
	return model.Info{
		Kind: "remote", Inputs: o.Inputs, Outputs: o.Outputs, Remote: true,
		Describe: strings.TrimSpace(fmt.Sprintf("%s at %s, %s", o.Model, o.URL, o.API)),
	}
}

// call returns the URL of a call.
func (s *openAI) call(name string) string {
	base := *s.to
	if strings.Trim(base.Path, "/") == "" {
		base.Path, base.RawPath = "/v1", ""
	}
	return base.JoinPath(name).String()
}

// agree requests the list of models, which most servers have. It ignores the content: many servers
// accept other names for a model than those in the list.
func (s *openAI) agree(ctx context.Context) (model.Info, error) { return s.info, s.ready(ctx) }

func (s *openAI) ready(ctx context.Context) error {
	if err := s.reach(ctx, http.MethodGet, s.call("models")); err != nil {
		return fmt.Errorf("ask %s for its models: %w", s.options.URL, err)
	}
	return nil
}

func (s *openAI) describe() model.Info { return s.info }

func (s *openAI) fits(rows model.Rows) error { return fits(&s.info, rows) }

func fits(info *model.Info, rows model.Rows) error {
	if numbers, texts := info.Width(), info.BytesWidth(); rows.Width != numbers || rows.BytesWidth != texts {
		return fmt.Errorf("rows of %d numbers and %d texts, the model takes %d and %d", rows.Width, rows.BytesWidth, numbers, texts)
	}
	return nil
}

func (s *openAI) check(_ []float64, bytes [][]byte) error {
	at := 0
	for i := range s.info.Inputs {
		in := &s.info.Inputs[i]
		if in.Type == model.Number {
			continue
		}
		if err := checkBytes(in, bytes[at]); err != nil {
			return err
		}
		at++
	}
	return nil
}

func checkBytes(in *model.Input, value []byte) error {
	switch {
	case value == nil:
		return &model.InputError{Name: in.Name, Err: errors.New("it is missing: give a value in its place")}
	case in.Type == model.String && !utf8.Valid(value):
		return &model.InputError{Name: in.Name, Err: errors.New("it is not UTF-8")}
	}
	return nil
}

// texts scores one text per row: embeddings and moderations.
type texts struct{ openAI }

func (s *texts) rowsMax() int { return 0 }

func (s *texts) ask(ctx context.Context, rows model.Rows, into model.Answer) error {
	request := struct {
		Model    string   `json:"model"`
		Input    []string `json:"input"`
		Encoding string   `json:"encoding_format,omitempty"`
	}{Model: s.options.Model}
	for _, text := range rows.Bytes {
		request.Input = append(request.Input, string(text))
	}
	read := s.moderations
	if s.options.API == Embeddings {
		request.Encoding, read = "float", s.embeddings
	}
	answer, err := s.post(ctx, s.call(string(s.options.API)), request, roomFor(into)+4096*int64(rows.Len()))
	if err != nil {
		return err
	}
	if err := read(answer, rows.Len(), into); err != nil {
		return &Error{Fault: Malformed, Err: err}
	}
	return nil
}

// embeddings reads vectors, which may be in any order.
func (s *texts) embeddings(answer []byte, n int, into model.Answer) error {
	scores := into.Scores
	var said struct {
		Data []struct {
			Index     *int
			Embedding json.RawMessage
		}
	}
	if err := json.Unmarshal(answer, &said); err != nil {
		return err
	}
	if len(said.Data) != n {
		return fmt.Errorf("%d embeddings of %d texts", len(said.Data), n)
	}
	seen := make([]bool, n)
	for i, vector := range said.Data {
		at := i
		if vector.Index != nil {
			at = *vector.Index
		}
		if at < 0 || at >= n || seen[at] {
			return fmt.Errorf("embedding %d of %d texts, or twice", at, n)
		}
		seen[at] = true
		size := len(scores) / n
		if err := numbers(vector.Embedding, scores[at*size:(at+1)*size]); err != nil {
			return fmt.Errorf("embedding %d: %w", at, err)
		}
	}
	return nil
}

// numbers reads a flat list of JSON.
func numbers(list json.RawMessage, into []float32) error {
	list = bytes.TrimSpace(list)
	if len(list) < 2 || list[0] != '[' {
		return errors.New("not a list of numbers")
	}
	elements := bytes.Split(list[1:len(list)-1], []byte{','})
	if len(elements) != len(into) {
		return fmt.Errorf("%d numbers, not %d", len(elements), len(into))
	}
	for i, element := range elements {
		value, err := strconv.ParseFloat(string(bytes.TrimSpace(element)), 32)
		if err != nil {
			return fmt.Errorf("%s is not a number of 32 bits", brief(string(element)))
		}
		into[i] = float32(value)
	}
	return nil
}

// moderations reads the scores of categories. As a text it returns the flagged categories, in the
// order of their names, separated by commas.
func (s *texts) moderations(answer []byte, n int, into model.Answer) error {
	var said struct {
		Results []struct {
			Flagged    *bool
			Categories map[string]bool
			Scores     map[string]*float64 `json:"category_scores"`
		}
	}
	if err := json.Unmarshal(answer, &said); err != nil {
		return err
	}
	if len(said.Results) != n {
		return fmt.Errorf("%d results of %d texts", len(said.Results), n)
	}
	scores := into.Scores[:0]
	for i, result := range said.Results {
		for _, out := range s.info.Outputs {
			if out.Text() {
				if result.Categories == nil {
					return fmt.Errorf("result %d has no categories", i)
				}
				into.Texts[i] = []byte(strings.Join(flagged(result.Categories), ","))
				continue
			}
			score := result.Scores[out.Name]
			if score == nil && out.Name == "flagged" && result.Flagged != nil {
				score = new(float64)
				if *result.Flagged {
					*score = 1
				}
			}
			if score == nil {
				return fmt.Errorf("result %d has no category %q", i, out.Name)
			}
			scores = append(scores, float32(*score))
		}
	}
	return finite(scores)
}

func flagged(categories map[string]bool) (names []string) {
	for name, is := range categories {
		if is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func finite(scores []float32) error {
	for _, score := range scores {
		if wide := float64(score); math.IsInf(wide, 0) || math.IsNaN(wide) {
			return fmt.Errorf("%v is not a number of 32 bits", score)
		}
	}
	return nil
}

// transcriptions converts sounds to texts.
type transcriptions struct{ openAI }

func (s *transcriptions) rowsMax() int { return 1 }

func (s *transcriptions) ask(ctx context.Context, rows model.Rows, into model.Answer) error {
	sounds := rows.Bytes
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	file, err := form.CreateFormFile("file", "sound"+extension(sounds[0]))
	if err == nil {
		_, err = file.Write(sounds[0])
	}
	for _, field := range [][2]string{{"model", s.options.Model}, {"response_format", "json"}} {
		if err == nil {
			err = form.WriteField(field[0], field[1])
		}
	}
	if err == nil {
		err = form.Close()
	}
	if err != nil {
		return &Error{Fault: Refused, Err: err}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.call("audio/transcriptions"), &body)
	if err != nil {
		return &Error{Fault: Failed, Err: err}
	}
	request.Header.Set("Content-Type", form.FormDataContentType())
	name(request, append([]byte(s.options.Model+"\x00"), sounds[0]...)) // the boundary of the form is random, so the body is not the key
	answer, _, err := s.do(request, 16<<20)                             // an hour of speech is 60 kB
	if err != nil {
		return err
	}
	var said struct{ Text *string }
	switch err := json.Unmarshal(answer, &said); {
	case err != nil:
		return fault(Malformed, "the answer's JSON: %w", err)
	case said.Text == nil:
		return fault(Unfit, "an answer without a text")
	}
	into.Texts[0] = []byte(*said.Text)
	return nil
}

// extension returns the file name extension for the content. Servers detect the format by it.
func extension(sound []byte) string {
	switch kind, _, _ := strings.Cut(http.DetectContentType(sound), ";"); {
	case bytes.HasPrefix(sound, []byte("fLaC")):
		return ".flac"
	case kind == "audio/mpeg":
		return ".mp3"
	case kind == "application/ogg":
		return ".ogg"
	case kind == "video/webm":
		return ".webm"
	case kind == "video/mp4":
		return ".mp4"
	}
	return ".wav"
}
