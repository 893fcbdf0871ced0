package admin

import (
	"fmt"
	"net/http"

	"github.com/afterbay/afterbay/internal/http/ingest"
)

func problem(w http.ResponseWriter, status int, hint, format string, args ...any) {
	ingest.WriteJSON(w, status, ingest.Problem{Error: fmt.Sprintf(format, args...), Hint: hint})
}
