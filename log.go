package afterbay

import (
	"context"

	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// OpenLog opens the log that a URL names, as `engine` of a pipeline file does: embedded,
// which is the log in the folder of the process, kafka://HOST:PORT, or a URL of a kind of
// code. A log at memory: is forgotten when it is closed. Settings stand behind a question
// mark, if the kind takes them there. The caller closes the log.
func OpenLog(ctx context.Context, url string, code Code, p stream.Process) (stream.Engine, error) {
	return builtin.OpenLog(ctx, url, code, p)
}
