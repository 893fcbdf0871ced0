package afterbay

import (
	"time"

	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/step"
)

// Pipeline is one pipeline: what the pipeline file writes, in Go. Its zero
// values are the file's defaults.
type Pipeline struct {
	Name      string // also the consumer group and the name of its state
	Input     Input
	Inputs    []Input  // instead of Input: several topics, merged through the topic <name>.merged
	Delivery  Delivery // "" is exactly-once
	Commit    Commit
	Models    []Model
	Constants []Constant
	Steps     []Step

	Lag    Lag    `json:"-"`
	Engine Engine `json:"-"` // for who opens the log, as afterbay run does: a Runner is given one
	Code   Code   `json:"-"` // what the steps name that is written in Go
}

// Code is what a pipeline calls by name in the program that embeds it.
type Code struct {
	Functions map[string]step.Function // of call steps
	Models    map[string]model.Model   // of Model.Go
}

// Delivery is how often an output is written for an event after a crash.
type Delivery string

// The delivery modes. The embedded log commits outputs, state and offsets in
// one frame, so there each of them is exactly-once.
const (
	ExactlyOnce Delivery = "exactly-once"
	AtLeastOnce Delivery = "at-least-once"
	AtMostOnce  Delivery = "at-most-once"
)

// Input says what the pipeline reads.
type Input struct {
	Topic      string
	Partitions int32     // of the topic where it has to be created; 0 is 4
	Key        string    // a field of kind string or int: events of one key share state and order
	Time       EventTime // when the event happened
	Fields     []Field   // what is read from the JSON of an event
	MaxBytes   int       // a larger value is a dead letter; 0 is 1 MiB
	Dedupe     *Dedupe   // nil takes every event

	// Repartition is set where the topic is written with another key: its events
	// are first copied to the topic <name>.merged, of so many partitions, by Key.
	// 0 reads the topic itself; of several inputs, which are always copied, it
	// is then 4.
	Repartition int32
}

// Dedupe drops events that were seen before: those whose id one of the newest
// Max events of the partition had, less than Window before its newest time.
type Dedupe struct {
	ID     string        // a field of kind string or int
	Window time.Duration // of event time; 0 is 24 h
	Max    int           // ids remembered by partition, 32 bytes of memory each; 0 is 1,000,000
}

// EventTime says where an event's time stands and how far events may be out of
// order.
type EventTime struct {
	Field    string        // "" takes the time of the append
	Unit     string        // s, ms, us, ns (field of type int) or rfc3339 (string)
	Lateness time.Duration // the watermark is the newest time seen less this; 0 is none
	Late     string        // what becomes of an event before the watermark: dlq (default), drop, include
	LateTo   string        // instead of Late: the topic it is written to as it came
	MaxAhead time.Duration // a time further past the append is a dead letter; 0 is 1 h
}

// Field is a name and its type, as the file writes them: "amount", "number".
type Field struct{ Name, Type string }

// Commit says how often steps are committed.
type Commit struct {
	Interval time.Duration // shortest time between two commits; 0 is 2 ms, on Kafka 50 ms, or the log's own where a step shares the sync of its inputs
	Size     int           // most events in a step; 0 is 8,192
}

// Lag says how far the pipeline may fall behind: how long ago the oldest event
// that it has not committed may have come in.
type Lag struct {
	Warn     time.Duration // beyond it a metric turns 1 and a line is logged; 0 is never
	Critical time.Duration // beyond it, besides, the process is not ready; 0 is never
}

// Engine is the log that a process runs its pipelines on.
type Engine struct {
	URL          string // kafka://HOST:PORT[,HOST:PORT...], kafka+tls:// for an encrypted way, or embedded, the log of a data directory; "" is embedded
	CA           string // a file of certificates to trust, PEM; "" is those of the system
	Cert         string // a file of this client's certificate, PEM; "" is none
	Key          string // a file of its key, PEM; "" is none
	SASL         string // how to say who is there: plain, scram-sha-256, scram-sha-512 or oauthbearer; "" is nobody
	User         string // of plain and scram; of oauthbearer the client id for TokenURL; "" is AFTERBAY_KAFKA_USER
	Password     string // of the user; "" is AFTERBAY_KAFKA_PASSWORD
	PasswordFile string // a file of the password; "" is AFTERBAY_KAFKA_PASSWORD
	Token        string // of oauthbearer; "" is AFTERBAY_KAFKA_TOKEN
	TokenFile    string // a file of the token, read again at each connection; "" is AFTERBAY_KAFKA_TOKEN
	TokenURL     string // where OAuth 2.0 gives tokens for client credentials, which are the user and the password; "" is none
	Scope        string // of the tokens that TokenURL gives; "" is none
	ClientID     string // shown in the brokers' logs and quotas; "" is afterbay
	Rack         string // reads go to a replica in it where there is one; "" is none
	Groups       string // classic (default), where the members assign partitions, or server, where the brokers do (KIP-848, Kafka 4.0)
	Replication  int    // copies of the topics that are made; 0 is the brokers' default
}

// Model names a model file and its outputs.
type Model struct {
	Name    string
	File    string // XGBoost .json or .ubj
	Go      string // instead of File: a name in Pipeline.Code.Models
	Version int    // at least 1: "latest" is not a version
	Outputs []Field
}

// Constant is a name for a scalar (bool, int64, float64 or string) or for a
// table from string to scalars of one kind, used as table[key] ?? default.
type Constant struct {
	Name  string
	Value any // scalar, or nil where Table is set
	Table map[string]any
}

// Step is one stage; exactly one of its fields is set.
type Step struct {
	Let      []Binding
	Features []Feature
	Score    *Score
	Call     *Call
	Route    []Case
	Decide   []Binding
	Emit     *Emit
}

// Case is one way of a route: an event takes the first whose condition holds.
type Case struct {
	Name  string
	When  string // expression of type bool; "" only of the last one, named default
	Steps []Step
	Then  string // instead of Steps: dlq (what happens without a default) or drop
}

// Call calls a function in Go.
type Call struct {
	Go      string   // a name in Pipeline.Code.Functions
	When    string   // a skipped call leaves its outputs absent: they are optional then
	Inputs  []string // names that it may read
	Outputs []Field  // names that it introduces
	Topics  []string // topics that it may write
}

// Binding introduces a name as the value of an expression.
type Binding struct{ Name, Expr string }

// Feature is a keyed feature: exactly one of Windows, Last and Elapsed.
type Feature struct {
	Name       string
	Value      string   // expression; "" counts events
	When       string   // expression of type bool; "" is always
	Windows    []string // "60s" exact, "60s/5s" in panes of 5 s
	Last       int      // the newest values by arrival, 1 to 1,000
	Elapsed    bool     // seconds since the key's newest event
	Aggregates []string // count, sum, mean, max, min
	Decimals   *int     // aggregate exact integers of this many decimals, 0 to 9
	Empty      *float64 // value where there is nothing to aggregate; nil is 0
	Max        int      // entries of exact windows of a key, 64 to 1,048,576; 0 is 65,536
	Overflow   string   // beyond Max: pane (default) reads sixtieths of the window, dlq refuses the event
}

// Score calls a model.
type Score struct {
	Model    string
	As       string    // prefix of the outputs' names; "" is the model's name
	When     string    // a skipped score yields Fallback or optional outputs
	Inputs   []string  // names in the model's order; feature.* expands
	ByName   []Binding // instead of Inputs: model feature name to name, any order
	Fallback []Binding // output to expression
	Batch    Batch
}

// Batch bounds one call of a model.
type Batch struct {
	Size int           // most rows of a call; 0 is 64
	Wait time.Duration // longest wait for more rows while more are on their way; 0 is none
}

// Emit writes an output record.
type Emit struct {
	Topic string
	Key   string // a name; "" is the input's key, and its partition with it
	When  string
	ID    string    // expression of type string; "" is pipeline:partition:offset:emit-index
	Names []string  // names; dots become _; event.* is all fields, feature.* expands
	Value []Binding // instead of Names: JSON key to expression
}
