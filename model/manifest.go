package model

import (
	"cmp"
	"time"
)

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

	Config Config // what only models of Kind need; nil is what the kind begins with
	Dir    string // the manifest's folder; "" is that of the process
}

// Described returns the inputs as a model has them.
func (m *Manifest) Described() []Input {
	list := make([]Input, len(m.Inputs))
	for i, in := range m.Inputs {
		list[i] = Input{Name: in.Name, Type: cmp.Or(in.Type, Number), Shape: in.Shape, Categories: in.Categories}
	}
	return list
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
