package process

import (
	"log/slog"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/http/reload"
)

// Tokens loads a file of tokens, and reloads it when it changes. Without a path it returns nil.
func Tokens(path string, logger *slog.Logger) (access.Tokens, error) {
	if path == "" {
		return nil, nil
	}
	value, err := reload.New("the token file "+path, logger, func() (*access.Set, []string, error) {
		file, err := config.LoadTokens(path)
		if err != nil {
			return nil, nil, err
		}
		return file.Open()
	})
	if err != nil {
		return nil, failure.Files(err)
	}
	return value, nil
}
