package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/test/reference"
	"github.com/afterbay/afterbay/udf"
)

// chainFunctions are the functions of the reference's chain, written for the
// engine.
func chainFunctions(pipeline string) map[string]udf.Function {
	sessions, milestones := "sessions", "milestones"
	if pipeline == "activity" {
		sessions, milestones = "activity-sessions", "activity-milestones"
	}
	return map[string]udf.Function{
		"band":    {Version: 1, Event: band},
		"share":   {Version: 1, Event: share},
		"session": {Version: 1, Keyed: true, Event: sessionEvent(sessions, milestones), Timer: sessionTimer(sessions)},
		"strikes": {Version: 1, Keyed: true, Event: strikesEvent, Timer: strikesTimer(sessions)},
		"devices": {Version: 1, Keyed: true, Event: devicesEvent, Timer: devicesTimer(sessions)},
	}
}

var errRefused = errors.New("refused")

func band(c *udf.Context) error {
	amount, country := c.Number("amount"), c.Text("country")
	if country == "NG" && amount > 150 {
		return errRefused
	}
	c.SetText("band", map[bool]string{false: "low", true: "high"}[amount >= 100])
	c.SetInt("cents", int64(math.Abs(amount)*100))
	c.SetBool("foreign", country != "US")
	return nil
}

func share(c *udf.Context) error {
	c.SetNumber("share", c.Number("amount")/c.Number("shop.count_1h"))
	return nil
}

// What functions keep is text, as the reference has it.
func kept(c *udf.Context, name string) int64 {
	n, _ := strconv.ParseInt(string(c.Get(name)), 10, 64) // 0 where there is none
	return n
}

func keep(c *udf.Context, name string, n int64) {
	c.Put(name, strconv.AppendInt(nil, n, 10))
}

func write(c *udf.Context, topic, key, id string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	c.Emit(udf.Output{Topic: topic, Key: key, ID: id, Value: text})
}

func watermarkOf(c *udf.Context) int64 {
	if c.Watermark.IsZero() {
		return math.MinInt64
	}
	return c.Watermark.UnixMicro()
}

func sessionEvent(sessions, milestones string) func(c *udf.Context) error {
	type milestone struct {
		N         int64   `json:"n"`
		Spent     float64 `json:"spent"`
		Watermark int64   `json:"watermark"`
	}
	return func(c *udf.Context) error {
		n, kind := kept(c, "n")+1, strings.Clone(c.Text("kind"))
		before, _ := strconv.ParseFloat(string(c.Get("spent")), 64)
		total := before + c.Number("spent")
		keep(c, "n", n)
		c.Put("spent", strconv.AppendFloat(nil, total, 'g', -1, 64))
		if n == 1 {
			c.Put("kind", []byte(kind))
			keep(c, "from", c.Time.UnixMicro())
			c.SetTimer("tick", c.Time.Add(time.Minute))
		} else {
			c.SetText("first_kind", string(c.Get("kind")))
		}
		c.SetTimer("end", c.Time.Add(30*time.Second))
		if n%5 == 0 {
			c.SetTimer("soon", c.Time.Add(-time.Second))
		}
		if kind == "refund" {
			c.StopTimer("tick")
		}
		if n%10 == 0 {
			write(c, milestones, kind, "", milestone{n, total, watermarkOf(c)})
			write(c, sessions, "", fmt.Sprintf("milestone:%s:%d", c.Key, n), map[string]int64{"n": n})
		}
		switch cents := int64(math.Abs(c.Number("spent"))*100 + 0.5); {
		case cents%97 == 1:
			return errRefused
		case cents%89 == 1:
			panic("refused")
		}
		c.SetInt("session_n", n)
		c.SetNumber("session_spent", total)
		return nil
	}
}

func sessionTimer(sessions string) func(c *udf.Context) error {
	type ended struct {
		N         int64  `json:"n"`
		Kind      string `json:"kind"`
		From      int64  `json:"from"`
		Ticks     int64  `json:"ticks"`
		Soons     int64  `json:"soons"`
		At        int64  `json:"at"`
		Watermark int64  `json:"watermark"`
	}
	type ticked struct {
		Ticks int64 `json:"ticks"`
		N     int64 `json:"n"`
	}
	return func(c *udf.Context) error {
		ticks := kept(c, "ticks")
		switch c.Timer {
		case "end":
			write(c, sessions, "", "", ended{kept(c, "n"), string(c.Get("kind")), kept(c, "from"), ticks, kept(c, "soons"), c.Time.UnixMicro(), watermarkOf(c)})
			for _, name := range []string{"n", "spent", "kind", "from", "ticks", "soons"} {
				c.Put(name, nil)
			}
			c.StopTimer("tick")
			c.StopTimer("soon")
		case "tick":
			ticks++
			keep(c, "ticks", ticks)
			c.SetTimer("tick", c.Time.Add(time.Minute))
			write(c, sessions, fmt.Sprintf("tick-%d", ticks%3), "", ticked{ticks, kept(c, "n")})
			if ticks%4 == 3 {
				return errRefused
			}
		case "soon":
			keep(c, "soons", kept(c, "soons")+1)
		}
		return nil
	}
}

func strikesEvent(c *udf.Context) error {
	n := kept(c, "n")
	if c.Text("action") == "block" {
		n++
		keep(c, "n", n)
		c.Put("worst", strconv.AppendFloat(nil, c.Number("fraud.score"), 'g', -1, 64))
		c.SetTimer("forgive", c.Time.Add(2*time.Minute))
	}
	c.SetInt("strikes", n)
	return nil
}

func strikesTimer(sessions string) func(c *udf.Context) error {
	type forgiven struct {
		Forgiven string `json:"forgiven"`
		Left     int64  `json:"left"`
	}
	return func(c *udf.Context) error {
		n := kept(c, "n") - 1
		write(c, sessions, "", "", forgiven{string(c.Get("worst")), n})
		if n == 0 {
			c.Put("n", nil)
			c.Put("worst", nil)
			return nil
		}
		keep(c, "n", n)
		c.SetTimer("forgive", c.Time.Add(2*time.Minute))
		return nil
	}
}

func devicesEvent(c *udf.Context) error {
	place := strings.Clone(c.Text("place"))
	keep(c, place, c.Time.UnixMicro())
	c.SetTimer(place, c.Time.Add(10*time.Minute))
	n := int64(0)
	for _, place := range reference.Places {
		if c.Get(place) != nil {
			n++
		}
	}
	c.SetInt("devices", n)
	return nil
}

func devicesTimer(sessions string) func(c *udf.Context) error {
	type forgotten struct {
		Forgotten string `json:"forgotten"`
		Left      int64  `json:"left"`
	}
	return func(c *udf.Context) error {
		c.Put(c.Timer, nil)
		n := int64(0)
		for _, place := range reference.Places {
			if c.Get(place) != nil {
				n++
			}
		}
		write(c, sessions, "", "", forgotten{c.Timer, n})
		return nil
	}
}
