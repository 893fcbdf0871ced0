package main

import "strings"

// system is a program that does the work. Words in braces in its arguments are
// replaced for each run.
type system struct {
	name string
	argv []string
	// drain and paced are further arguments, or lines of the pipeline file: the
	// settings that its users would take for throughput and for latency.
	drain, paced         []string
	drainFile, pacedFile string
	drainEnvironment     []string // NAME=value
}

// throughput is the collector for throughput; the JVM's own choice is one for
// short pauses.
const throughput = "JDK_JAVA_OPTIONS=-XX:+UseParallelGC"

// java is how the peers on the JVM start. Without a limit the heap would grow to
// a quarter of the machine before it is collected.
func java(module, class string, arguments ...string) []string {
	return append([]string{
		"java", "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED",
		"-cp", "bench/peers/" + module + "/target/" + module + "-1.jar:bench/peers/" + module + "/target/libs/*", class, "{work}/model.deprecated", "{in}", "{out}",
	}, arguments...)
}

// systems returns what is compared. Why each setting is what it is: README.md.
func systems(afterbay []string) []system {
	streams := []string{
		"application.id={id}", "bootstrap.servers={broker}", "state.dir={dir}/state", "processing.guarantee=exactly_once_v2",
	}
	flink := java("flink", "peers.Flink", "{broker}", "{id}", "parallelism.default=2", "pipeline.object-reuse=true", "state.backend.type=hashmap",
		"execution.checkpointing.mode=EXACTLY_ONCE", "execution.checkpointing.dir=file://{dir}/checkpoints")
	return []system{
		{name: "afterbay", argv: afterbay, pacedFile: "commit: {interval: 10ms}\n"},
		{
			name: "afterbay_at_least_once", argv: afterbay,
			drainFile: "delivery: at-least-once\n", pacedFile: "delivery: at-least-once\n",
		},
		{name: "streams", argv: append(java("streams", "peers.Streams"), streams...)},
		{
			name: "streams_tuned",
			argv: append(append(java("streams", "peers.Streams"), streams...),
				"num.stream.threads=2", "statestore.cache.max.bytes=268435456"),
			paced:            []string{"commit.interval.ms=10"},
			drainEnvironment: []string{throughput},
		},
		{
			name: "flink", argv: flink,
			drain: []string{"execution.checkpointing.interval=1s"},
			paced: []string{"execution.checkpointing.interval=250ms", "execution.buffer-timeout.interval=5ms"},
		},
		{name: "python", argv: []string{".venv/bin/python", "bench/peers/python/worker.py", "examples/baseline/model.ubj", "{in}", "{out}", "{broker}", "{id}"}},
	}
}

// run is one run of a system.
type run struct {
	broker, work, dir, id, in, out string
}

// fill returns arguments with the words of a run.
func (r run) fill(argv []string) []string {
	replacer := strings.NewReplacer("{broker}", r.broker, "{work}", r.work, "{dir}", r.dir, "{id}", r.id, "{in}", r.in, "{out}", r.out)
	out := make([]string, len(argv))
	for i, argument := range argv {
		out[i] = replacer.Replace(argument)
	}
	return out
}

// pipeline returns the pipeline file of examples/baseline with names of a run,
// and further lines.
func (r run) pipeline(file, lines string) []byte {
	replacer := strings.NewReplacer("pipeline: baseline", lines+"pipeline: "+r.id, "topic: posts", "topic: "+r.in, "topic: results", "topic: "+r.out)
	return []byte(replacer.Replace(file))
}
