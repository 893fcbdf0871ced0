package expression

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
	"unsafe"

	"github.com/afterbay/afterbay/internal/event/hash"
	"github.com/afterbay/afterbay/internal/event/value"
)

var hashes = []Function{
	{
		Name: "hash", Forms: []string{"(x any) int", "(x any, salt string) int"}, least: 1, most: 2, compile: hashed,
		Is:      "an int from 0 to 2^53 - 1: equal for equal x and salt, otherwise pseudo-random. It selects a [share of keys](../howto/share.md): `hash(card, \"a salt of this use\") % 20 == 0` is true for one card in 20. x is a bool, int, number, time, string or bytes",
		Example: `hash("c1", "review")`, Result: `5120964614367057`,
	},
	{
		Name: "sha256", Forms: []string{"(x string) string", "(x bytes) string"}, least: 1, most: 1, compile: digest,
		Is:      "the SHA-256 digest of x, as 64 hexadecimal digits in lower case: what `hexdigest()` of Python and `sha256()` of DuckDB return. A digest does not hide a value that can be guessed",
		Example: `substr(sha256("c1"), 0, 8)`, Result: `"d0f631ca"`,
	},
}

// digest compiles sha256(x).
func digest(c call) (operand, *Error) {
	if err := c.takes(0, "a string or bytes", value.String, value.Bytes); err != nil {
		return operand{}, err
	}
	return mapped(value.String, c.args[0], func(s string) (string, bool) {
		sum := sha256.Sum256(unsafe.Slice(unsafe.StringData(s), len(s)))
		var text [2 * sha256.Size]byte
		hex.Encode(text[:], sum[:])
		return string(text[:]), true
	}, nil)
}

// hashed compiles hash(x) and hash(x, salt): hash.Of the text of x. The text is that of string(x),
// with two exceptions. A whole number has the text of the int with the same value, so equal ints
// and numbers have one hash. Bytes are hashed directly.
func hashed(c call) (operand, *Error) {
	xs := c.args
	salt := constant(value.String, "")
	if len(xs) == 2 {
		salt = xs[1]
	}
	if salt.typ.Kind != value.String {
		e := wrong("hash", "a string as its salt", salt)
		e.Hint = convert(salt, value.String)
		return operand{}, e
	}
	x, by := xs[0], salt.fn.(eval[string])
	switch f := x.fn.(type) {
	case eval[bool]:
		return hashOf(f, by, func(v bool, salt string) int64 { return hash.Of(strconv.FormatBool(v), salt) }, x, salt)
	case eval[int64]:
		if x.typ.Kind == value.Time {
			return hashOf(f, by, hashTime, x, salt)
		}
		return hashOf(f, by, hashInt, x, salt)
	case eval[float64]:
		return hashOf(f, by, hashNumber, x, salt)
	case eval[string]:
		if x.typ.Kind == value.String || x.typ.Kind == value.Bytes {
			return hashOf(f, by, hash.Of[string], x, salt)
		}
	}
	e := wrong("hash", "a bool, int, number, time, string or bytes", x)
	if x.typ.Kind == value.List|value.String {
		e.Hint = "use join(" + x.text() + `, ",")`
	}
	return operand{}, e
}

func hashOf[T any](get eval[T], by eval[string], f func(T, string) int64, x, salt operand) (operand, *Error) {
	return derived(value.Int, func(row *value.Row) (int64, *Error) {
		v, err := get(row)
		if err != nil {
			return 0, err
		}
		with, err := by(row)
		if err != nil {
			return 0, err
		}
		return f(v, with), nil
	}, x, salt)
}

func hashInt(v int64, salt string) int64 {
	var digits [20]byte
	return hash.Of(strconv.AppendInt(digits[:0], v, 10), salt)
}

// hashNumber hashes a whole number, including -0, as an int.
func hashNumber(v float64, salt string) int64 {
	if v >= -1<<63 && v < 1<<63 && v == float64(int64(v)) {
		return hashInt(int64(v), salt)
	}
	var digits [32]byte
	return hash.Of(appendNumber(digits[:0], v), salt)
}

func hashTime(micros int64, salt string) int64 {
	var text [40]byte
	return hash.Of(time.UnixMicro(micros).UTC().AppendFormat(text[:0], timeLayout), salt)
}
