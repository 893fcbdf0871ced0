package lookup

import (
	"encoding/json"
	"fmt"
)

// Query returns the key of a search by a vector and texts: a list of texts as JSON.
// The first text is the vector as JSON.
func Query(vector []float64, texts [][]byte) string {
	list := make([]string, 1+len(texts))
	numbers := make([]float32, len(vector)) // vectors are of float32, with shorter decimals
	for i, v := range vector {
		numbers[i] = float32(v)
	}
	list[0] = string(encode(numbers))
	for i, text := range texts {
		list[1+i] = string(text)
	}
	return string(encode(list))
}

// ParseQuery returns the vector of a key as JSON, and its texts.
func ParseQuery(key string) (list []string, err error) {
	if err := json.Unmarshal([]byte(key), &list); err != nil {
		return nil, fmt.Errorf("key %.60q is none of a vector: %w", key, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("key %.60q has no vector", key)
	}
	return list, nil
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("lookup: a key cannot be encoded: " + err.Error()) // plain data always can
	}
	return text
}
