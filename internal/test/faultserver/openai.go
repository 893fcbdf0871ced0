package faultserver

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// The paths of OpenAI's calls that the server answers in their form.
const (
	embeddings  = "/v1/embeddings"
	moderations = "/v1/moderations"
	chat        = "/v1/chat/completions"

	transcriptions = "/v1/audio/transcriptions"
)

// EmbeddingSize is how many numbers an embedding has: number i of a text's is
// Score(text, i).
const EmbeddingSize = 4

// inputsOf returns the texts of an `input`, one or a list.
func inputsOf(body []byte) ([][]string, error) {
	var request struct{ Input json.RawMessage }
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	var one string
	if json.Unmarshal(request.Input, &one) == nil {
		return [][]string{{one}}, nil
	}
	var list []string
	if err := json.Unmarshal(request.Input, &list); err != nil || len(list) == 0 {
		return nil, fmt.Errorf("input is to be a text or some: %s", request.Input)
	}
	rows := make([][]string, len(list))
	for i := range list {
		rows[i] = list[i : i+1]
	}
	return rows, nil
}

// answerOpenAI returns an answer in the form of a path, nil where it is no path
// of OpenAI's. A score that is missing is that of a wrong answer.
func answerOpenAI(path string, rows [][]string, scores []*float32) any {
	var list []any
	switch path {
	case embeddings:
		for i := range scores {
			list = append(list, map[string]any{"object": "embedding", "index": i, "embedding": embedding(rows[i], scores[i])})
		}
		return map[string]any{"object": "list", "model": "faults", "data": list, "usage": usage(rows)}
	case moderations:
		for _, score := range scores {
			list = append(list, map[string]any{
				"flagged": score != nil && *score > 0.5, "categories": map[string]any{"harm": score != nil && *score > 0.5},
				"category_scores": map[string]any{"harm": score},
			})
		}
		return map[string]any{"id": "modr-faults", "model": "faults", "results": list}
	case transcriptions:
		return map[string]any{"text": heard(rows[0][0]), "usage": usage(rows)}
	case chat:
		message := map[string]any{"role": "assistant", "content": nil}
		if scores[0] != nil {
			message["content"] = strconv.FormatFloat(float64(*scores[0]), 'g', -1, 32)
		}
		return map[string]any{
			"id": "chatcmpl-faults", "object": "chat.completion", "model": "faults", "usage": usage(rows),
			"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": "stop"}},
		}
	}
	return nil
}

const (
	soundHead = 44      // bytes of a WAV file before its samples
	wordBytes = 6 << 10 // of a word in a sound: the word, filled up with zeros, and a voice
	wordMax   = 64      // of these, those for the word
	soundRate = 44_100  // bytes of a second
)

// Say returns a sound that the server hears as the words of a text, in order. It is a WAV file of
// 22,050 samples of 16 bits per second, and each part encodes its own words. Between words it
// repeats the samples of voice, or has silence if voice is empty. A word has at most 64 bytes.
func Say(text string, voice []byte) []byte {
	sound := make([]byte, soundHead)
	for word := range strings.FieldsSeq(text) {
		at := len(sound)
		sound = append(sound, make([]byte, wordBytes)...)
		copy(sound[at:at+wordMax], word)
		for i := at + wordMax; i < len(sound) && len(voice) > 0; i++ {
			sound[i] = voice[(i-soundHead)%len(voice)]
		}
	}
	copy(sound, "RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00")
	binary.LittleEndian.PutUint32(sound[4:], uint32(len(sound)-8))
	binary.LittleEndian.PutUint32(sound[24:], soundRate/2)
	binary.LittleEndian.PutUint32(sound[28:], soundRate)
	copy(sound[32:], "\x02\x00\x10\x00data")
	binary.LittleEndian.PutUint32(sound[40:], uint32(len(sound)-soundHead))
	return sound
}

// heard returns the words of a sound that Say made. The sound may be cut.
func heard(sound string) string {
	var words []string
	for at := soundHead; at < len(sound); at += wordBytes {
		words = append(words, strings.TrimRight(sound[at:min(at+wordMax, len(sound))], "\x00"))
	}
	return strings.Join(words, " ")
}

// soundOf returns the file of a call for a transcription: its form has a boundary
// that is another one in each call.
func soundOf(r *http.Request, body []byte) ([]byte, error) {
	r.Body = io.NopCloser(bytes.NewReader(body))
	file, _, err := r.FormFile("file")
	if err != nil {
		return nil, fmt.Errorf("read the form: %w", err)
	}
	defer file.Close()
	return io.ReadAll(file)
}

func embedding(row []string, score *float32) []float32 {
	if score == nil {
		return nil
	}
	numbers := make([]float32, EmbeddingSize)
	for i := range numbers {
		numbers[i] = Score(append(row[:len(row):len(row)], strconv.Itoa(i))...)
	}
	return numbers
}

// usage counts a token for every four bytes.
func usage(rows [][]string) map[string]int {
	tokens := 0
	for _, row := range rows {
		for _, value := range row {
			tokens += (len(value) + 3) / 4
		}
	}
	return map[string]int{"prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens}
}
