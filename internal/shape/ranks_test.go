package shape_test

// ranks gives each folder of packages a rank; it holds for the packages below it too that have none of their own. A
// package imports packages of lower ranks, and packages below it in its own folder.
var ranks = []struct {
	rank    int
	folders []string
}{
	{0, []string{"stream", "model", "internal/observe/metric", "internal/observe/profile"}},
	{1, []string{
		"lookup", "internal/naming", "internal/sys", "internal/control", "internal/event/value", "internal/event/hash", "internal/event/header", "internal/event/zone",
		"internal/state/statekey", "internal/state/packed", "internal/task/clock", "internal/task/due", "internal/http/server", "internal/http/reload",
		"internal/log/balance", "internal/log/optional", "internal/models/calling", "internal/models/category", "internal/gateway/limit", "internal/models/oip",
	}},
	{2, []string{
		"internal/feature", "internal/models/onnx/internal/wire", "internal/event/decode", "internal/event/encode", "internal/event/expression", "stream/streamtest", "internal/observe",
		"internal/models/text/internal", "internal/gateway/wire", "internal/gateway/hub", "internal/gateway/auth", "internal/http/access", "sink",
	}},
	{3, []string{
		"udf", "internal/test/answers", "internal/event/avro", "internal/event/csv", "internal/event/envelope", "internal/event/jsonschema", "internal/event/protobuf", "internal/event/tabular", "internal/state/dedupe", "internal/state/journal", "internal/models/batch", "internal/models/tree",
		"internal/models/text/wordpiece", "internal/observe/otlp", "internal/gateway/contract",
		"internal/models/onnx/internal", "internal/spec",
	}},
	{4, []string{
		"internal/event/registry", "internal/state/deadletter", "internal/state/generation", "internal/state/order", "internal/state", "internal/models/onnx", "internal/lookups", "internal/models/text",
		"internal/models/onnx/worker", "internal/models/process", "internal/models/remote",
		"internal/fetch", "internal/sinks/row", "internal/failure",
	}},
	{5, []string{
		"internal/log", "internal/models", "internal/http/ingest", "internal/http/serving", "internal/models/ocr", "internal/models/voice",
		"internal/lookups/postgres", "internal/lookups/redis", "internal/lookups/http", "internal/gateway/sequence", "internal/sinks/files",
		"internal/sinks/http", "internal/sinks/postgres", "internal/sinks/redis", "internal/task/operator",
	}},
	{6, []string{"internal/task/table", "internal/sinks", "internal/sinks/kafka"}},
	{8, []string{"internal/task/output", "internal/task/group", "internal/task/join", "internal/task/async"}},
	{9, []string{"internal/task/keyed"}},
	{10, []string{"internal/task"}},
	{11, []string{"internal/lang"}},
	{12, []string{"internal/config", "internal/lang/steps"}},
	{13, []string{"internal/compile"}},
	{14, []string{"internal/pipeline"}},
	{15, []string{"internal/gateway", "internal/ops/inspect", "internal/ops/scaffold", "internal/ops/reprocess", "internal/check/registry"}},
	{16, []string{"internal/http/admin", "internal/ops/explain"}},
	{17, []string{"internal/process", "internal/ops/report"}},
	{18, []string{".", "internal/check/dryrun", "internal/check/lint", "client"}},
	{19, []string{"scenario", "internal/ops/dataset", "internal/ops/skew", "internal/lab/demo", "internal/test"}},
	{20, []string{"internal/lab", "internal/e2e", "internal/shape"}},
	{21, []string{"cmd/afterbay", "cmd/afterbay-onnx"}},
}

// public are the packages that programs of others may import. The root is ".".
var public = []string{".", "client", "lookup", "model", "scenario", "sink", "stream", "stream/streamtest", "udf"}

// up are the imports that run up the ranks, each with what ends it. The list only shrinks: an import that is gone is
// struck from it, and none is added.
var up = map[string]string{}

// alone justifies each package that one other package imports: else it would be a part of that one.
var alone = map[string]string{
	"internal/event/csv":                "one folder a format",
	"internal/event/zone":               "go:embed reads files of its own folder",
	"internal/check/lint":               "the program's code stays small",
	"internal/check/registry":           "the program's code stays small",
	"internal/lab/bench":                "the program's code stays small",
	"internal/lab/demo/moderation":      "go:embed reads files of its own folder",
	"internal/lab/simulate":             "the program's code stays small",
	"internal/lookups/http":             "one folder a service",
	"internal/lookups/postgres":         "one folder a service",
	"internal/lookups/redis":            "one folder a service",
	"internal/models/ocr":               "one folder a kind",
	"internal/models/onnx/internal/ort": "loads a library: only the worker process may",
	"internal/models/onnx/worker":       "the worker process has no other code of the module",
	"internal/models/text":              "one folder a kind",
	"internal/models/voice":             "one folder a kind",
	"internal/ops/dataset":              "the program's code stays small",
	"internal/ops/scaffold":             "the program's code stays small",
	"internal/ops/skew":                 "the program's code stays small",
	"internal/sinks/files":              "one folder a service",
	"internal/sinks/http":               "one folder a service",
	"internal/sinks/kafka":              "one folder a service",
	"internal/sinks/postgres":           "one folder a service",
	"internal/sinks/redis":              "one folder a service",
	"internal/task/keyed":               "a type of its own that the loop uses, with tests of its own",
}
