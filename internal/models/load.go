// Package models opens models: trees and texts, which a file's content tells, and, by a
// manifest, those of the kinds that it is given.
package models

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/afterbay/afterbay/internal/models/text"
	"github.com/afterbay/afterbay/internal/models/tree"
	"github.com/afterbay/afterbay/model"
)

// File reads a model: trees of XGBoost (.json, .ubj), LightGBM (.txt), CatBoost
// (.json) or ONNX (.onnx), or a text model that export.py of package internal/models/text
// wrote. Files of more than 1 GiB are refused, and other graphs of ONNX by a *GraphError.
func File(path string) (model.Model, error) { return FileWith(path, Options{}) }

// Options say how to read the file of a model.
type Options struct {
	Trees        string // as tree.Options has it: of models of trees
	TextBytesMax int    // of a text; 0 is what the kind of model takes
}

// FileWith is File with options.
func FileWith(path string, o Options) (model.Model, error) {
	data, err := model.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load model: %w", err)
	}
	return parse(filepath.Base(path), data, o)
}

// Parse reads the content of a model's file. The name is for error messages
// only. Hostile bytes cannot do more than fail.
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

// Told returns the kinds of models that files are told to be. They are computed in this
// process.
func Told() []string { return slices.Clone(told) }

// Inside reports whether models of a kind are computed in this process, from their
// file alone; "" is told by the file.
func Inside(kind string) bool { return kind == "" || slices.Contains(told, kind) }

var told = []string{"xgboost", "lightgbm", "catboost", "onnx-trees", "text"}
