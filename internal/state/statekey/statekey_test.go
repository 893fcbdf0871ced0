package statekey

import (
	"bytes"
	"slices"
	"testing"
)

// TestKeysOfOneUserKeyAreFoundAndNoOthers looks keys up among those of other
// user keys, which start alike.
func TestKeysOfOneUserKeyAreFoundAndNoOthers(t *testing.T) {
	users := []string{"", "a", "ab", "abc", "b", string([]byte{2, 'a', 'b'}), string(make([]byte, 200))}
	of := map[string]string{}
	var all []string
	for _, user := range users {
		for set := range 2 {
			for _, sub := range []string{"", "1", "12"} {
				key := string(AppendCell(nil, set, user, []byte(sub)))
				if _, taken := of[key]; taken {
					t.Fatalf("%q is the key of two", key)
				}
				of[key] = user
				all = append(all, key)
			}
			if header := AppendCell(nil, set, user, nil); !bytes.HasPrefix(header, Header(set)) || string(header[1:]) != user {
				t.Errorf("%q is the header of %q", header, user)
			}
		}
	}
	for _, user := range users {
		var found, want []string
		for _, key := range all {
			if of[key] == user {
				want = append(want, key)
			}
			if slices.ContainsFunc(Prefixes(user), func(p []byte) bool { return bytes.HasPrefix([]byte(key), p) }) && Owns([]byte(key), user) {
				found = append(found, key)
			}
		}
		if !slices.Equal(found, want) {
			t.Errorf("of %q: %q, want %q", user, found, want)
		}
		if key, ok := CallKey(AppendCall(nil, user, "function")); !ok || string(key) != user {
			t.Errorf("a call of %q is one of %q", user, key)
		}
	}
	for _, broken := range []string{"c", "c\x05abc", "c\xff"} {
		if _, ok := CallKey([]byte(broken)); ok {
			t.Errorf("%q is the key of a call", broken)
		}
	}
}

// TestKeysOfJoinsAreReadAgain has the parts of a key of a join contain each other's bytes.
func TestKeysOfJoinsAreReadAgain(t *testing.T) {
	seen := map[string]bool{}
	for _, key := range []string{"", "k", "k\x01", "\x01k"} {
		for _, on := range []string{"", "k", "\x01\x01k", string(make([]byte, 200))} {
			of := string(AppendJoin(nil, "click", []byte(key), on))
			for _, right := range []bool{false, true} {
				stored := AppendJoinRow(nil, of, right, 1<<40+7)
				if seen[string(stored)] {
					t.Errorf("%q occurs twice", stored)
				}
				seen[string(stored)] = true
				join, gotOf, gotKey, gotRight, offset, ok := JoinOf(stored)
				if !ok || join != "click" || gotOf != of || string(gotKey) != key || gotRight != right || offset != 1<<40+7 {
					t.Errorf("%q is of join %q, %q, key %q, right %v, %d: %v", stored, join, gotOf, gotKey, gotRight, offset, ok)
				}
				for n := 1; n < len(stored); n++ {
					if _, of, _, _, _, ok := JoinOf(stored[:n]); ok && of == gotOf {
						t.Errorf("%d of %d bytes are a key", n, len(stored))
					}
				}
			}
		}
	}
}
