package expression

import (
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/event/zone"
)

var calendar = []Function{
	{
		Name: "hour", Forms: inZone, least: 1, most: 2, compile: clock(time.Time.Hour),
		Is: "the hour of the day, 0 to 23", Example: `hour(at, "Europe/Berlin")`, Result: `3`,
	},
	{
		Name: "weekday", Forms: inZone, least: 1, most: 2, compile: clock(func(t time.Time) int { return (int(t.Weekday()) + 6) % 7 }),
		Is: "the day of the week, 0 for Monday to 6 for Sunday, as in Python and pandas", Example: `weekday(at)`, Result: `6`,
	},
	{
		Name: "day", Forms: inZone, least: 1, most: 2, compile: clock(time.Time.Day),
		Is: "the day of the month, 1 to 31", Example: `day(at, "America/New_York")`, Result: `28`,
	},
	{
		Name: "month", Forms: inZone, least: 1, most: 2, compile: clock(func(t time.Time) int { return int(t.Month()) }),
		Is: "the month, 1 to 12", Example: `month(at)`, Result: `3`,
	},
}

// inZone lists the signatures of functions of a time.
var inZone = []string{"(at time) int", "(at time, zone string) int"}

// clock returns a function of a time in a zone. The zone is a literal, or UTC by default.
func clock(f func(time.Time) int) func(call) (operand, *Error) {
	return func(c call) (operand, *Error) {
		if err := c.takes(0, "a time", value.Time); err != nil {
			return operand{}, err
		}
		location, err := c.zone()
		if err != nil {
			return operand{}, err
		}
		return mapped(value.Int, c.args[0], func(micros int64) (int64, bool) { return int64(f(time.UnixMicro(micros).In(location))), true }, nil)
	}
}

// zone returns the zone argument of a call.
func (c call) zone() (*time.Location, *Error) {
	if len(c.args) == 1 {
		return time.UTC, nil
	}
	x := c.args[1]
	name, ok := known[string](x)
	if !ok || x.typ.Kind != value.String {
		return nil, &Error{Column: x.column(), Message: "the time zone of " + c.name + " is a literal", Hint: fmt.Sprintf(`write %s(%s, "Europe/Berlin")`, c.name, c.args[0].text())}
	}
	location, err := zone.Load(name)
	if err != nil {
		e := &Error{Column: x.column(), Message: err.Error(), Hint: "use a name such as Europe/Berlin or UTC"}
		if near := Nearest(name, zone.Names()); near != "" {
			e.Hint = "did you mean " + near + "?"
		}
		return nil, e
	}
	return location, nil
}
