package model

import (
	"strings"
	"time"
)

// IsManifest reports whether a path is that of a manifest rather than of a model:
// it ends with .yaml or .yml.
func IsManifest(path string) bool {
	return strings.HasSuffix(path, ".yaml") || strings.HasSuffix(path, ".yml")
}

// Manifest says what a model is and must do, beside its file. It is only usable
// where all of it holds: see package models.
type Manifest struct {
	Name    string          // what the model is called
	Version int             // at least 1, raised with the file: "latest" is not a version
	Kind    string          // what the file holds; "" is whatever it holds
	File    string          // the model's file, relative to the manifest
	Digest  string          // sha256 of the file, 64 hex digits
	Trees   string          `json:",omitempty"` // of XGBoost: all, or best, those up to the best iteration; "" is as tree.Options says
	Inputs  []ManifestInput // in the model's order
	Outputs []Output        // in the model's order: its own, or one for each of its scores
	Batch   Policy
	Golden  string // a file of CSV, relative to the manifest: rows of inputs with the scores they must have; "" is none
	Limits  Limits

	// What the model is outside of the process, by Kind; else nil.
	ONNX    *ONNX
	OCR     *OCR
	Voice   *Voice
	Process *Process
	Remote  *Remote
}

// ManifestInput is an input of a model.
type ManifestInput struct {
	Name       string
	Type       Type     // "" is number
	Shape      []int    // of a value; nil is a single one
	Categories []string // of a number: the texts that 0, 1 and so on stand for
}

// Policy says which rows share a call of a model.
type Policy struct {
	Size     int           // most rows of a call; 0 is 64
	Wait     time.Duration // longest wait for more rows while more are on their way; 0 is none
	ByLength bool          // rows of like length share calls: for models that pad to the longest
}

// Limits bound what a model is given.
type Limits struct {
	TextBytes int // of a text or bytes; a larger one cannot be scored; 0 is what the kind of model takes
	Rows      int // of a call; 0 is 4096
}

// ONNX says how processes of ONNX Runtime compute a model of kind onnx. Its inputs
// and outputs are called as those of the graph.
type ONNX struct {
	Workers     int           // processes, each with the model in its memory; 0 is one for each core but one, at most 4
	Threads     int           // that compute a call; 0 is 1
	Timeout     time.Duration // most that a call may take, after which its process is ended; 0 is 30s
	MemoryBytes int           // of a process, on Linux; 0 is 2GiB

	Tokens    *Tokens    // the word pieces that texts are given as; nil gives the texts
	Constants []Constant // inputs that are always the same
	Carry     []Carry    // inputs in front of which the last elements of the key's row before are put
	States    []State    // inputs that are what the key's row before left
	Missing   bool       // missing numbers are given as NaN
	Pool      string     // makes one vector of those of a text's tokens
	Normalize bool       // makes the scores of a row a vector of length 1
}

// Tokens are word pieces of texts.
type Tokens struct {
	File string // tokenizer.json or vocab.txt, relative to the manifest
	Max  int    // tokens of a text, beyond which its end is cut off; 0 is 256
}

// Constant is an input of a graph that is always the same.
type Constant struct {
	Name   string
	Values []float64
}

// Carry is how many elements an input keeps of the key's row before.
type Carry struct {
	Name     string
	Elements int
}

// State is an input of a graph, in zeros at first, that an output is for the next
// row of the same key.
type State struct {
	Name   string
	Output string // of the graph
	Shape  []int  // -1 stands for the rows of a call; nil is the graph's, if only that length is open
}

// OCR says which models, beside the file, which finds lines of text, read images.
type OCR struct {
	Read   Weights  // reads the lines
	Turn   *Weights // tells which lines stand on their head; nil takes all as they are
	Pixels int      // of an image; 0 is 20,000,000

	Workers     int           // images that are read at a time, by a process for each model; 0 is 1
	Threads     int           // that compute a call; 0 is 1
	Timeout     time.Duration // most that a model may take for a call, after which its process is ended; 0 is 30s
	MemoryBytes int           // of a process, on Linux; 0 is 2GiB
}

// Voice says how the file, silero's model for 16 kHz, hears sounds.
type Voice struct {
	Seconds int // that a sound may be long; 0 is 900

	Workers     int           // sounds that are heard at a time, each by a process; 0 is 1
	Threads     int           // that compute a call; 0 is 1
	Timeout     time.Duration // most that a frame of 32 ms may take, after which the process is ended; 0 is 30s
	MemoryBytes int           // of a process, on Linux; 0 is 2GiB
}

// Weights is the file of a further model.
type Weights struct {
	File   string // relative to the manifest
	Digest string // sha256 of the file, 64 hex digits
}

// Process says which program a model of kind process is.
type Process struct {
	Command     []string      // the program and its arguments, run in the manifest's folder
	Workers     int           // processes that run; 0 is 2
	Timeout     time.Duration // most that a worker may take for an answer; 0 is 30s
	Start       time.Duration // most that a worker may take to start; 0 is 1m
	MemoryBytes int           // at which a worker is ended, on Linux; 0 is 2GiB
	Pure        bool          // the program computes each row for itself and does nothing else: events may be scored before they are durable
	Env         []string      // names of variables that the program gets, beside PATH, HOME, LANG and TMPDIR; AFTERBAY_* is refused
	Dir         string        // the manifest's folder
}

// Remote says which server's model one of kind remote is. Its inputs and outputs
// are called as those of the server.
type Remote struct {
	Endpoint  string        // grpc://host:port, grpcs:// for TLS, http:// or https://; of OpenAI's calls up to /v1
	API       string        // what the server speaks; "" is the Open Inference Protocol
	Model     string        // the server's name for the model
	Version   string        // to ask the server for; "" leaves it to the server
	JSON      bool          // sends JSON over HTTP, for servers without binary tensors; rows with missing numbers cannot be scored
	Chat      *Chat         // of api chat
	Mapping   *Mapping      // of api http
	Timeout   time.Duration // most that a call may take; 0 is 3s, of api chat 1m
	Calls     int           // that may be under way; 0 is 16, or what a pipeline says for queued events
	Token     string        // variable of the environment that holds a token; "" is none
	TokenFile string        // file that holds a token, relative to the manifest, read at each call; "" is none
	Header    string        // header that the token is sent in; "" is Authorization, behind the word Bearer
}

// Chat is what a chat model is asked: a row is a question, and the answer is JSON
// with a number for each output.
type Chat struct {
	System  string // what the model is told first; "" is nothing
	Prompt  string // the question, with {name} for the value of an input
	Answer  int    // most tokens of an answer, with those of thinking; 0 is 64
	Tokens  int    // most tokens of calls under way, questions taken as a token for 4 bytes; 0 is 100000
	Reasons bool   // the model thinks before it answers, as OpenAI's since o1: it takes max_completion_tokens instead of max_tokens, and no temperature of 0
}

// Mapping says which JSON is sent for rows, and where their scores are in the
// answer. Places are names with points between them, of which a number counts in
// a list from 0.
type Mapping struct {
	Rows    string  // place of the list with an object for each row in what is sent; "" is a call for each row, whose object is all that is sent
	Results string  // place of the list with the result of each row in the answer; "" is the answer itself
	Send    []Place // places of inputs in the object of a row; the others stand in it by their names
	Read    []Place // places of outputs in the result of a row; the others stand in it by their names, or are all of it if it is no object
}

// Place is where an input or output is in JSON.
type Place struct {
	Name  string
	Place string
}
