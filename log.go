package afterbay

import (
	"context"

	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// OpenLog opens the log at a URL, as the field `engine` of a pipeline file does. The URL is
// embedded (the log in the folder of the process), kafka://HOST:PORT, or a URL of a kind of code. A
// log at memory: is lost when it is closed. Settings follow a question mark, if the kind accepts
// them there. The caller closes the log.
func OpenLog(ctx context.Context, url string, code Code, p stream.Process) (stream.Engine, error) {
	return builtin.OpenLog(ctx, url, code, p)
}
