package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/scenario"
	"github.com/afterbay/afterbay/udf"
)

// functions are those that the scenarios in the folder functions call.
func functions() lang.Code {
	return lang.Code{
		Functions: map[string]udf.Function{
			"language": {Version: 1, Event: language},
			"count":    {Version: 1, Keyed: true, Event: count},
			"session":  {Version: 1, Keyed: true, Event: session, Timer: sessionEnd},
			"alarm":    {Version: 1, Keyed: true, Event: alarm, Timer: alarmRings},
		},
		Models: map[string]model.Model{"tone": tone{}},
	}
}

// language says which language a text is in. It knows two, and no numbers.
func language(c *udf.Context) error {
	text := c.Text("text")
	switch {
	case text == "panic":
		panic("no panic, please")
	case strings.ContainsAny(text, "0123456789"):
		return errors.New("this is a number")
	case strings.Contains(text, "ich"):
		c.SetText("lang", "de")
	default:
		c.SetText("lang", "en")
	}
	if len(text) > 20 {
		c.SetNumber("sure", 1)
	}
	return nil
}

// count numbers the events of a key, and writes every third. It changes its
// state before it finds out whether the amount is right.
func count(c *udf.Context) error {
	n, _ := strconv.Atoi(string(c.Get("n")))
	n++
	c.Put("n", strconv.AppendInt(nil, int64(n), 10))
	c.SetInt("nth", int64(n))
	if n%3 == 0 {
		c.Emit(udf.Output{Topic: "thirds", Value: fmt.Appendf(nil, `{"n":%d}`, n)})
		c.Emit(udf.Output{Topic: "thirds", Key: "all", ID: "third:" + c.ID, Value: fmt.Appendf(nil, `{"key":%q}`, c.Key)})
	}
	if c.Number("amount") < 0 {
		return errors.New("a negative amount")
	}
	return nil
}

// session counts the events of a key until it was silent for 30 s.
func session(c *udf.Context) error {
	n, _ := strconv.Atoi(string(c.Get("n")))
	c.Put("n", strconv.AppendInt(nil, int64(n+1), 10))
	c.SetTimer("end", c.Time.Add(30*time.Second))
	return nil
}

func sessionEnd(c *udf.Context) error {
	c.Emit(udf.Output{Topic: "sessions", Value: fmt.Appendf(nil, `{"key":%q,"events":%s}`, c.Key, c.Get("n"))})
	c.Put("n", nil)
	return nil
}

// alarm sets and stops timers as the events say: "name seconds" or "name off".
func alarm(c *udf.Context) error {
	name, rest, _ := strings.Cut(c.Text("set"), " ")
	if rest == "off" {
		c.StopTimer(name)
		return nil
	}
	seconds, err := strconv.Atoi(rest)
	if err != nil {
		return err
	}
	c.SetTimer(name, c.Time.Add(time.Duration(seconds)*time.Second))
	return nil
}

// alarmRings writes which timer rang. The timer again rings each 10 s, still
// at its own time again, and bad fails.
func alarmRings(c *udf.Context) error {
	c.Emit(udf.Output{Topic: "alarms", Value: fmt.Appendf(nil, `{"timer":%q}`, c.Timer)})
	switch c.Timer {
	case "again":
		c.SetTimer("again", c.Time.Add(10*time.Second))
	case "still":
		c.SetTimer("still", c.Time)
	case "bad":
		return errors.New("it does not ring")
	}
	return nil
}

// tone is a model in Go: half of what it gets, and nothing above 100.
type tone struct{}

func (tone) Info() model.Info {
	return model.Info{Kind: "go", Inputs: model.Numbers(1), Outputs: []model.Output{{Name: "tone", Size: 1}}, Digest: "tone-1"}
}

func (tone) Check(row []float64, _ [][]byte) error {
	if row[0] > 100 {
		return fmt.Errorf("%v is too loud", row[0])
	}
	return nil
}

func (tone) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	for i := range scores {
		scores[i] = float32(rows.Values[i] / 2)
	}
	return nil
}

func TestFunctionsAndTimersHappenAsTheyAreWritten(t *testing.T) {
	files, err := filepath.Glob("functions/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			scenario.Test(t, file, scenario.Options{Code: functions(), Update: *update})
		})
	}
}
