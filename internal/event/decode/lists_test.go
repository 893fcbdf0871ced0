package decode_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/value"
)

func TestListsAndMapsOfOtherKinds(t *testing.T) {
	scanner, schema, row := newScanner(t, "is optional int[]", "rs optional raw[]", "m optional map of int")
	bytesOf := func(v ...uint64) (text string) {
		for _, n := range v {
			text += string(value.AppendElement(nil, value.Int, value.Element{Num: n}))
		}
		return text
	}
	for src, want := range map[string]string{
		`{"is":[1, 2 ],"m":{"b":2,"\u0061":1}}`:                                          fmt.Sprintf("is=%q rs=- m=%q", bytesOf(1, 2), "\x01a"+bytesOf(1)+"\x01b"+bytesOf(2)),
		`{"is":[],"rs":[{"a" : [1]},"x"],"m":{ }}`:                                       fmt.Sprintf("is=%q rs=%q m=%q", "", "\x0b{\"a\" : [1]}\x03\"x\"", ""),
		`{"is":null,"rs":[[` + strings.Repeat("[", 61) + strings.Repeat("]", 61) + `]]}`: fmt.Sprintf("is=- rs=%q m=-", "|"+strings.Repeat("[", 62)+strings.Repeat("]", 62)),
	} {
		if err := scanner.Scan([]byte(src), row); err != nil {
			t.Errorf("%s: %v", src, err)
		} else if got := show(schema, row); got != want {
			t.Errorf("%s:\n got %s\nwant %s", src, got, want)
		}
	}
	for src, want := range map[string]string{
		`{"is":[1,2.5]}`:                     `field "is" at byte 9: want int, got a number with a fraction or an exponent`,
		`{"is":[1,null]}`:                    `field "is" at byte 9: null but required: want int`,
		`{"is":{"a":1}}`:                     `field "is" at byte 6: want optional int[], got an object`,
		`{"is":[1`:                           `field "is" at byte 8: the record ends too early`,
		`{"m":{"a":1,"\u0061":2}}`:           `field "m" at byte 23: the key "a" occurs in the object twice`,
		`{"m":{"a":"b"}}`:                    `field "m" at byte 10: want int, got a string`,
		`{"m":[1]}`:                          `field "m" at byte 5: want optional map of int, got an array`,
		`{"m":{"a":1,}}`:                     `field "m" at byte 12: unexpected '}', want a key in double quotes`,
		`{"m":{`:                             `field "m" at byte 6: the record ends too early`,
		`{"rs":[[` + strings.Repeat("[", 62): `field "rs" at byte 69: nested deeper than 64`,
	} {
		if err := scanner.Scan([]byte(src), row); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", src, err, want)
		}
	}
}
