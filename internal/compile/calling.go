package compile

import (
	"cmp"
	"fmt"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/model"
)

// modelCalling returns how to call a model, or nil if the model is called inline.
func (o *opening) modelCalling(path string, m *lang.Model, loaded model.Model) *operator.Calling {
	info := loaded.Info()
	call, outside := m.Call, info.Remote && (info.Kind == "remote" || info.Kind == "process")
	if call == nil && (m.Journal != nil && !m.Journal.Off || outside && info.State == 0) {
		call = &lang.Calling{}
	}
	calling := o.CallModel(path+".call", o.callsOf(path+".call", call, info), m.Name, lang.TimeoutOf(info))
	if calling == nil {
		return nil
	}
	if info.Timeout > 0 && calling.Timeout > info.Timeout {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%s.call.timeout: %v has no effect: the manifest of model %s ends its calls after %v", path, calling.Timeout, m.Name, info.Timeout))
	}
	calling.Implied, calling.Ready = m.Call == nil && m.Journal == nil, lang.ReadyOf(loaded)
	kept, by := m.Journal, operator.JournalByRequest
	if kept == nil && outside {
		kept = &lang.Journal{}
	}
	if calling.Generative = info.Generative; info.Generative {
		by = operator.JournalByEvent
	}
	o.KeepAnswers(path+".journal", kept, by, calling)
	calling.Always = m.Journal != nil && calling.Journal != operator.JournalNone
	return calling
}

// callsOf returns a copy of call that does not exceed the model's limit of concurrent calls.
func (o *opening) callsOf(path string, call *lang.Calling, info model.Info) *lang.Calling {
	if call == nil || info.CallsMax == 0 {
		return call
	}
	bounded := *call
	if call.Concurrency > info.CallsMax {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%s.concurrency: %d is above remote.calls of the manifest, which allows %d calls at a time: raise remote.calls, or remove concurrency", path, call.Concurrency, info.CallsMax))
		bounded.Concurrency = info.CallsMax
	}
	bounded.Concurrency = cmp.Or(bounded.Concurrency, info.CallsMax)
	bounded.Start = min(bounded.Start, bounded.Concurrency)
	return &bounded
}

// answersAs reports whether a model has as many scores and texts as the file declares.
func (o *opening) answersAs(path string, types []value.Type, info model.Info) bool {
	scores, texts := 0, 0
	for _, t := range types {
		if scores += columnsOfType(t); t.Kind == value.String || t.Kind == value.Bytes {
			texts++
		}
	}
	if n := info.Scores(); n != scores {
		o.Fail(path, "the model has %d outputs, %d are named", n, scores)
		o.Hint("name them in the model's order, those of classes by their number: {other: number, fraud: number}")
		return false
	}
	if n := info.Texts(); n != texts {
		o.Fail(path, "the model answers with %d texts, %d are named", n, texts)
		o.Hint("name them in the model's order: {text: string}")
		return false
	}
	return true
}

// columnsOfType returns how many scores an output of a type takes.
func columnsOfType(t value.Type) int {
	switch t.Kind {
	case value.Number:
		return 1
	case value.Vector:
		return t.Size
	}
	return 0
}
