// Package builtin has the kinds of sinks, lookups, logs and models of the binary. Kinds is the only
// place that lists them.
package builtin

import (
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/embedded"
	kafkalog "github.com/afterbay/afterbay/internal/log/kafka"
	lookuphttp "github.com/afterbay/afterbay/internal/lookups/http"
	lookuppostgres "github.com/afterbay/afterbay/internal/lookups/postgres"
	lookupredis "github.com/afterbay/afterbay/internal/lookups/redis"
	"github.com/afterbay/afterbay/internal/models/ocr"
	"github.com/afterbay/afterbay/internal/models/onnx"
	"github.com/afterbay/afterbay/internal/models/process"
	"github.com/afterbay/afterbay/internal/models/remote"
	"github.com/afterbay/afterbay/internal/models/voice"
	"github.com/afterbay/afterbay/internal/sinks/files"
	"github.com/afterbay/afterbay/internal/sinks/http"
	"github.com/afterbay/afterbay/internal/sinks/kafka"
	"github.com/afterbay/afterbay/internal/sinks/postgres"
	"github.com/afterbay/afterbay/internal/sinks/redis"
	"github.com/afterbay/afterbay/lookup"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// Kinds returns the built-in kinds, in the order of the reference page.
func Kinds() lang.Kinds {
	return lang.Kinds{
		Steps:   steps.All(),
		Sinks:   []sink.Kind{http.Kind, postgres.Kind, redis.Kind, files.Kind, kafka.Kind},
		Lookups: []lookup.Kind{lookupredis.Kind, lookuppostgres.Kind, lookuphttp.Kind},
		Logs:    []stream.Kind{kafkalog.Kind, embedded.Kind},
		Models:  []model.Kind{onnx.Kind, ocr.Kind, process.Kind, remote.Kind, voice.Kind},
	}
}
