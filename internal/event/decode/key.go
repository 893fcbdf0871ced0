package decode

import (
	"strings"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/event/value"
)

// Key returns the key of a record: the text of a field that is a string, unescaped, or an integer
// in its shortest form. field is a name, or the text of a path. ok is false if Scan would refuse
// the record for a required slot of kind string or int. The key may alias src.
func Key(src []byte, field string) (text []byte, ok bool) {
	if !utf8.Valid(src) {
		return nil, false
	}
	if strings.ContainsAny(field, `."[`) {
		return keyAt(src, field)
	}
	i, more, reason := open(src)
	for more && reason == "" {
		var name []byte
		var escaped bool
		if name, escaped, i, reason = key(src, i); reason != "" {
			return nil, false
		}
		start := i
		if i, reason = skip(src, i, 1); reason != "" {
			return nil, false
		}
		if string(name) == field && !escaped || escaped && unescape(name) == field {
			if ok {
				return nil, false
			}
			if text, ok = keyText(src, start); !ok {
				return nil, false
			}
		}
		i, more, reason = after(src, i)
	}
	if reason != "" || space(src, i) < len(src) || !ok {
		return nil, false
	}
	return text, true
}

// keyAt is Key for a path.
func keyAt(src []byte, path string) (text []byte, ok bool) {
	parts, err := ParsePath(path)
	if err != nil {
		return nil, false
	}
	var schema value.Schema
	slot, err := schema.Add(path, value.Type{Kind: value.Raw, Optional: true})
	if err != nil {
		return nil, false
	}
	row := schema.NewRows(1)[0]
	if New([]Field{{Name: path, Path: parts, Slot: slot}}).Scan(src, &row) != nil || !row.Has(slot) {
		return nil, false
	}
	if text, ok = keyText([]byte(row.Text(slot)), 0); !ok {
		return nil, false
	}
	return text, true
}

// keyText returns the key for the valid value at src[i:].
func keyText(src []byte, i int) ([]byte, bool) {
	if src[i] == '"' {
		end, escaped, _ := text(src, i+1)
		if escaped {
			return []byte(unescape(src[i+1 : end-1])), true
		}
		return src[i+1 : end-1 : end-1], true
	}
	if !numeric(src[i]) {
		return nil, false
	}
	var n numeral
	end, _ := number(src, i, &n)
	v, reason := n.int(src[i:end])
	if v == 0 {
		return []byte("0"), reason == "" // -0 is the same key as 0
	}
	return src[i:end:end], reason == ""
}
