package compile

import (
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// bound is a pipeline with resolved names and typed expressions.
type bound struct {
	*lang.Scope
	read   read
	turns  operator.Fairness
	budget observe.Budget
}

// bind resolves the names of a pipeline and types its expressions. It inserts the findings of the
// open models between the findings above the steps and those of the steps. If rows is true, the
// steps end before the first score of a model that is missing.
func bind(p *lang.Pipeline, models *opened, rows bool) *bound {
	b := &bound{Scope: lang.NewScope(p)}
	bindHeader(p, b.Findings)
	b.budget = budgetOf(p, b.Findings)
	b.read = bindInputs(b.Scope)
	b.Topic, b.ID = b.read.Topic, b.read.Meta.ID
	bindConstants(b.Scope)
	b.turns = bindTurns(b.Scope)
	bindModels(b.Scope)
	bindCandidates(b.Scope)
	b.Findings = b.Findings.Plus(models.Findings)
	if rows {
		b.Absent = models.absent()
	}
	b.Names.Later = lang.DeclaredIn(p)
	b.Steps("steps", p.Steps)
	return b
}

// bindHeader checks the fields above the steps.
func bindHeader(p *lang.Pipeline, c *lang.Findings) {
	if !naming.Valid(p.Name) {
		c.Fail("pipeline", "%q is not a name: use letters, digits, '_' and '-', at most 100", p.Name)
	}
	if naming.ReservedPipeline(p.Name) {
		c.Fail("pipeline", "%q is reserved for topics of the engine: use another name", p.Name)
	}
	switch p.Delivery {
	case "", lang.ExactlyOnce, lang.AtLeastOnce, lang.AtMostOnce:
	default:
		c.Fail("delivery", "unknown mode %q: use exactly-once, at-least-once or at-most-once", p.Delivery)
	}
	if p.Commit.Interval < 0 || p.Commit.Interval > time.Minute {
		c.Fail("commit.interval", "%v is out of range: use 0 to 1m", p.Commit.Interval)
	}
	if p.Commit.Size < 0 || p.Commit.Size > 1<<20 {
		c.Fail("commit.size", "%d is out of range: use 1 to 1048576 events", p.Commit.Size)
	}
	p.Lag.Check(c)
	if s := p.DeadLetters.StopAbove; s != (spec.Share{}) && !(s.Of > 0 && s.Of < 1 && s.Per >= time.Second && s.Per <= time.Hour) {
		c.Fail("dlq.stop_above", "%v%%/%v is out of range: use a share above 0%% and below 100%% and a time from 1s to 1h", s.Of*100, s.Per)
	}
}

// bindConstants introduces the constants.
func bindConstants(c *lang.Scope) {
	for _, k := range c.Pipeline.Constants {
		path := "constants." + k.Name
		if !c.Identifier(path, k.Name) {
			continue
		}
		if _, ok := c.Names.Schema.Lookup(k.Name); ok {
			c.Fail(path, "%q is a field already: a pipeline has one namespace, without shadowing", k.Name)
			continue
		}
		if (k.Value == nil) == (k.Table == nil) {
			c.Fail(path, "a constant is a scalar or a table of scalars")
			continue
		}
		c.Names.Constants[k.Name] = expression.Constant{Value: k.Value, Table: k.Table}
	}
}

// bindModels introduces the outputs of models, as the file declares them.
func bindModels(s *lang.Scope) {
	for _, m := range s.Pipeline.Models {
		path := "models." + m.Name
		if !s.Identifier(path, m.Name) {
			continue
		}
		if m.Version < 1 {
			s.Fail(path+".version", "%d is not a version: use a number from 1 that changes with the file", m.Version)
		}
		if types, ok := outputTypes(path+".outputs", m.Outputs, s.Findings); ok {
			s.Answers[m.Name] = types
		}
	}
}

// bindCandidates checks the candidates of all models. The models that replace them are checked when
// they are opened.
func bindCandidates(s *lang.Scope) {
	count := 0
	for _, m := range s.Pipeline.Models {
		versions := map[int]string{m.Version: "its model"}
		for n, c := range m.Candidates {
			path := lang.CandidatePath(m.Name, n)
			if count++; count == lang.MaxCandidates+1 {
				s.Fail(path, "a pipeline has at most %d candidates: each costs as much as the pipeline", lang.MaxCandidates)
				s.Hint("remove those that are decided")
			}
			if c.Mode != lang.Shadow {
				s.Fail(path+".mode", "%q is not a mode: write shadow", c.Mode)
			}
			switch other := versions[c.Version]; {
			case c.Version < 1:
				s.Fail(path+".version", "%d is not a version: use a number from 1", c.Version)
			case other != "":
				s.Fail(path+".version", "version %d is that of %s", c.Version, other)
				s.Hint("give each model file its own version: outputs name it")
			}
			versions[c.Version] = fmt.Sprintf("candidate %d", n+1)
		}
	}
	for path := range steps.Asked(s.Pipeline) {
		if count > 0 {
			s.Fail(path, "a pipeline with features by another field cannot have candidates: it cannot be reprocessed")
			s.Hint("give a file with the new model another pipeline name, and run both")
		}
		break
	}
}

// outputTypes returns the types that the file gives to the outputs of a model.
func outputTypes(path string, outputs []lang.Field, c *lang.Findings) (types []value.Type, ok bool) {
	before := len(c.Errs)
	for _, o := range outputs {
		t, err := value.ParseType(o.Type)
		switch {
		case err != nil:
			c.Fail(path+"."+o.Name, "%v", err)
		case t.Kind == value.String, t.Kind == value.Bytes:
		case t.Kind != value.Number && t.Kind != value.Vector:
			c.Fail(path+"."+o.Name, "type %q: the output of a model is a number, number[384], string or bytes", o.Type)
		case t.Optional:
			c.Fail(path+"."+o.Name, "type %q: scores are there, only a string or bytes may be absent", o.Type)
		}
		types = append(types, t)
	}
	return types, len(c.Errs) == before
}
