package afterbay

import (
	"context"
	"errors"
	"fmt"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// OpenLog opens the log that a URL names, as `engine` of a pipeline file does: embedded,
// which is the log in the folder of the process, kafka://HOST:PORT, or a URL of a kind of
// code. A log at memory: is forgotten when it is closed. Settings stand behind a question
// mark, if the kind takes them there. The caller closes the log.
func OpenLog(ctx context.Context, url string, code Code, p stream.Process) (stream.Engine, error) {
	kinds := builtin.Kinds()
	kinds.Logs = append(kinds.Logs, memory.Kind)
	kinds, err := kinds.With(code)
	if err != nil {
		return nil, err
	}
	engine, found := kinds.Engine(url)
	if len(found) > 0 {
		return nil, fmt.Errorf("open log: %w", found)
	}
	log, err := engine.Config.Open(ctx, p)
	if err == nil && log == nil {
		err = errors.New("it opened nothing")
	}
	if found := lang.EngineProblems(err); found != nil {
		err = found
	}
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return log, nil
}
