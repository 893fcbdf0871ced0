// Package category turns the values of categorical inputs of models into the numbers that models
// take.
package category

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Codes turns the values of a categorical input into codes, the numbers that the
// model takes: 0 for the first category, 1 for the second. A nil Codes belongs to
// an input without categories. Its numbers stay as they are.
type Codes struct {
	texts   map[string]float64
	numbers map[float64]float64 // of the categories that are numbers; nil if all are texts
	names   []string
}

// NewCodes returns the codes of categories, nil for no categories.
func NewCodes(categories []string) *Codes {
	if len(categories) == 0 {
		return nil
	}
	c := &Codes{texts: make(map[string]float64, len(categories)), names: categories}
	for code, name := range categories {
		c.texts[name] = float64(code)
		if number, ok := numberOf(name); ok {
			if c.numbers == nil {
				c.numbers = map[float64]float64{}
			}
			c.numbers[number] = float64(code)
		}
	}
	return c
}

// Check returns an error if two categories are the same text or the same number, because an event
// could not name one of them.
func Check(categories []string) error {
	texts, numbers := make(map[string]bool, len(categories)), map[float64]string{}
	for _, name := range categories {
		if texts[name] {
			return fmt.Errorf("category %q stands there twice", name)
		}
		texts[name] = true
		if number, ok := numberOf(name); ok {
			if other, twice := numbers[number]; twice {
				return fmt.Errorf("categories %q and %q are the same number: give them names that are texts", other, name)
			}
			numbers[number] = name
		}
	}
	return nil
}

// numberOf returns the number of a category in JSON's notation. "007", "nan" and "0x1f" are texts.
func numberOf(category string) (number float64, ok bool) {
	if category == "" || category[0] != '-' && (category[0] < '0' || category[0] > '9') || !json.Valid([]byte(category)) {
		return 0, false
	}
	number, err := strconv.ParseFloat(category, 64)
	return number, err == nil
}

// Text returns the code of the category of this name.
func (c *Codes) Text(name string) (code float64, known bool) {
	code, known = c.texts[name]
	return code, known
}

// Bool returns the code of the category "true" or "false". Without such a category
// a bool is the number 0 or 1.
func (c *Codes) Bool(value bool) (float64, error) {
	if c != nil {
		if code, known := c.texts[strconv.FormatBool(value)]; known {
			return code, nil
		}
	}
	if value {
		return c.Number(1)
	}
	return c.Number(0)
}

// Number returns the code of a number. If a category is a number, as in a pandas
// column of 10, 20 and 35, the number is a category. If all categories are texts, the
// number is a code. NaN is missing.
func (c *Codes) Number(number float64) (float64, error) {
	switch {
	case c == nil || number != number:
		return number, nil
	case c.numbers != nil:
		if code, known := c.numbers[number]; known {
			return code, nil
		}
		return 0, fmt.Errorf("%v is not one of the categories %s", number, c.some())
	case number < 0 || number >= float64(len(c.names)) || number != math.Trunc(number):
		return 0, fmt.Errorf("%v is not a code of a category: codes are whole numbers from 0 to %d, for %s", number, len(c.names)-1, c.some())
	}
	return number, nil
}

// some returns the first categories, for a message.
func (c *Codes) some() string {
	const shown = 8
	if len(c.names) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(c.names[:shown], ", "), len(c.names)-shown)
	}
	return strings.Join(c.names, ", ")
}
