package faultserver

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// The paths of OpenAI's calls that the server answers in their form.
const (
	embeddings  = "/v1/embeddings"
	moderations = "/v1/moderations"
	chat        = "/v1/chat/completions"
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
