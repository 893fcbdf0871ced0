// Package models opens models. The content of a file identifies trees and text models. Other kinds
// need a manifest, and are opened by the kinds that the caller passes.
package models

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/afterbay/afterbay/internal/models/text"
	"github.com/afterbay/afterbay/internal/models/tree"
	"github.com/afterbay/afterbay/model"
)

// File reads a model: trees of XGBoost (.json, .ubj), LightGBM (.txt), CatBoost (.json) or ONNX
// (.onnx), or a text model written by export.py of package internal/models/text. It refuses files
// of more than 1 GiB, and other graphs of ONNX with a *GraphError.
func File(path string) (model.Model, error) { return FileWith(path, Options{}) }

// Options say how to read the file of a model.
type Options struct {
	Trees        string // as in tree.Options; for models of trees
	TextBytesMax int    // largest text; 0 means the default of the kind of model
}

// FileWith is File with options.
func FileWith(path string, o Options) (model.Model, error) {
	data, err := model.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load model: %w", err)
	}
	return parse(filepath.Base(path), data, o)
}

// Parse reads the content of a model's file. The name is for error messages only. A hostile file
// can cause nothing worse than an error.
func Parse(name string, data []byte) (model.Model, error) { return parse(name, data, Options{}) }

func parse(name string, data []byte, o Options) (model.Model, error) {
	switch {
	case !text.Is(data):
		m, err := tree.ParseWith(name, data, tree.Options{Trees: o.Trees})
		if err != nil {
			return nil, graphError(name, data, err)
		}
		return m, nil
	case o.Trees != "":
		return nil, fmt.Errorf("model %s: trees: a text model has none (hint: remove it)", name)
	}
	return text.ParseWith(name, data, text.Options{TextBytesMax: o.TextBytesMax})
}

// Detected is a kind of model that is detected from the content of a file. Its models run in this
// process.
type Detected struct {
	Name string
	Help string // what a model of the kind does, for the reference page
}

// DetectedKinds returns the kinds in the order of the reference page.
func DetectedKinds() []Detected { return slices.Clone(detected) }

// Told returns the names of the kinds that are detected from the content of a file.
func Told() (names []string) {
	for _, kind := range detected {
		names = append(names, kind.Name)
	}
	return names
}

// Inside reports whether models of a kind run in this process, from their file alone. "" is
// detected from the file.
func Inside(kind string) bool { return kind == "" || slices.Contains(Told(), kind) }

var detected = []Detected{
	{"xgboost", "scores trees of XGBoost inside the process. The file is .json or .ubj, as `save_model` writes it."},
	{"lightgbm", "scores trees of LightGBM inside the process. The file is .txt, as `save_model` writes it."},
	{"catboost", "scores trees of CatBoost inside the process. The file is .json, as `save_model` writes it with `format=\"json\"`."},
	{"onnx-trees", "scores trees of an ONNX file inside the process, without ONNX Runtime. skl2onnx exports forests of scikit-learn to such files."},
	{"text", "scores texts with a linear model of scikit-learn inside the process. The file is .json, as `export.py` writes it."},
}
