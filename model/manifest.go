package model

import (
	"cmp"
	"time"
)

// Manifest describes a model file and what the model must do. A model loads only if everything in
// its manifest holds: see package models.
type Manifest struct {
	Name    string          // the model's name
	Version int             // at least 1, raised with the file: "latest" is not a version
	Kind    string          // the format of the file; "" is detected from the file
	File    string          // the model's file, relative to the manifest
	Digest  string          // sha256 of the file, 64 hex digits
	Trees   string          `json:",omitempty"` // XGBoost only: all, or best (up to the best iteration); "" is the default of tree.Options
	Inputs  []ManifestInput // in the model's order
	Outputs []Output        // in the model's order: its own, or one for each of its scores
	Batch   Policy
	Golden  string // a CSV file, relative to the manifest: rows of inputs with their expected scores; "" is no file
	Limits  Limits

	Config Config // fields that only models of Kind need; nil is the kind's defaults
	Dir    string // the manifest's folder; "" is the process's working directory
}

// Described returns the inputs in the form that Info has them.
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
	Wait     time.Duration // longest wait for more rows while more are on their way; 0 is no wait
	ByLength bool          // rows of similar length share calls: for models that pad to the longest
}

// Limits bound the input of a model.
type Limits struct {
	TextBytes int // of a text or bytes; a larger one cannot be scored; 0 is the default of the kind
	Rows      int // of a call; 0 is 4096
}
