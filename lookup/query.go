package lookup

import (
	"encoding/json"
	"fmt"
)

// Query returns the key of a search by a vector and texts: a JSON list of strings. The first string
// is the vector as JSON.
func Query(vector []float64, texts [][]byte) string {
	list := make([]string, 1+len(texts))
	numbers := make([]float32, len(vector)) // databases store float32, and its decimals are shorter
	for i, v := range vector {
		numbers[i] = float32(v)
	}
	list[0] = string(encode(numbers))
	for i, text := range texts {
		list[1+i] = string(text)
	}
	return string(encode(list))
}

// ParseQuery splits a key made by Query. It returns the vector as JSON, followed by the texts.
func ParseQuery(key string) (list []string, err error) {
	if err := json.Unmarshal([]byte(key), &list); err != nil {
		return nil, fmt.Errorf("key %.60q is not a vector: %w", key, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("key %.60q has no vector", key)
	}
	return list, nil
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("lookup: a key cannot be encoded: " + err.Error()) // plain data can always be encoded
	}
	return text
}
