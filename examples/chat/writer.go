package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const pace = 60 * time.Millisecond // between words

// models returns the list of models.
func models(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": []map[string]string{{"id": "stand-in", "object": "model"}}})
}

// complete answers like a chat model of OpenAI's API: word by word, as server-sent events. The
// answer says only that it listens.
func complete(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Messages []struct{ Content string }
		Stream   bool
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&request); err != nil || len(request.Messages) == 0 || !request.Stream {
		http.Error(w, `{"error": {"message": "send messages, with stream: true"}}`, http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, word := range strings.SplitAfter(answerTo(request.Messages[len(request.Messages)-1].Content), " ") {
		select {
		case <-r.Context().Done():
			return
		case <-time.After(pace):
		}
		piece, err := json.Marshal(map[string]any{"choices": []any{map[string]any{"delta": map[string]string{"content": word}}}})
		if err == nil {
			_, err = fmt.Fprintf(w, "data: %s\n\n", piece)
		}
		if err == nil {
			err = http.NewResponseController(w).Flush()
		}
		if err != nil {
			return
		}
	}
	_, _ = fmt.Fprint(w, "data: {\"choices\": [{\"finish_reason\": \"stop\"}]}\n\ndata: [DONE]\n\n")
}

func answerTo(text string) string {
	words := strings.Fields(text)
	return fmt.Sprintf("You said %d words, in %d letters. Tell me more: I have all day, and each word of mine takes its time.", len(words), len(strings.Join(words, "")))
}
