package scenario

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// compare returns the differences between the actual and the expected results of commands.
func (s *Scenario) compare(got [][]string) []Failure {
	var failures []Failure
	for i, c := range s.commands {
		if c.word == "pipeline" {
			continue
		}
		if d, same := diff(c.below, got[i]); !same {
			failures = append(failures, Failure{File: s.name, Line: c.line, Command: s.lines[c.line-1], Message: d, got: got[i]})
		}
	}
	return failures
}

// matches reports whether a result is the expected one. It ignores spaces in JSON; three dots at
// the end of want match any text.
func matches(want, got string) bool {
	if start, ok := strings.CutSuffix(want, "..."); ok && strings.HasPrefix(got, strings.TrimSpace(start)) {
		return true
	}
	return compact(want) == compact(got)
}

// compact removes the spaces from the JSON at the end of a result.
func compact(line string) string {
	for i := strings.IndexByte(line, '{'); i >= 0; i = -1 {
		var b bytes.Buffer
		if json.Compact(&b, []byte(line[i:])) == nil {
			return line[:i] + b.String()
		}
	}
	return line
}

// diff writes expected and actual results, with "-" and "+" before the lines that differ. It also
// reports whether the results are the same.
func diff(want, got []string) (text string, same bool) {
	var b strings.Builder
	same = true
	w, g := 0, 0
	for _, pair := range append(common(want, got), [2]int{len(want), len(got)}) {
		for ; w < pair[0]; w++ {
			same = false
			b.WriteString("- " + want[w] + "\n")
		}
		for ; g < pair[1]; g++ {
			same = false
			b.WriteString("+ " + got[g] + "\n")
		}
		if w < len(want) && g < len(got) {
			b.WriteString("  " + got[g] + "\n")
		}
		w, g = w+1, g+1
	}
	return strings.TrimSuffix(b.String(), "\n"), same
}

// common returns the positions of a longest common subsequence of two lists. If the middle of the
// lists is long, it returns only the common start and end.
func common(want, got []string) [][2]int {
	var pairs, tail [][2]int
	from, w, g := 0, len(want), len(got)
	for ; from < min(w, g) && matches(want[from], got[from]); from++ {
		pairs = append(pairs, [2]int{from, from})
	}
	for ; w > from && g > from && matches(want[w-1], got[g-1]); w, g = w-1, g-1 {
		tail = append(tail, [2]int{w - 1, g - 1})
	}
	if (w-from)*(g-from) <= 1<<16 {
		pairs = append(pairs, longest(want, got, from, w, g)...)
	}
	slices.Reverse(tail)
	return append(pairs, tail...)
}

// longest returns the positions of a longest common subsequence of want[from:w] and got[from:g].
func longest(want, got []string, from, w, g int) [][2]int {
	lengths := make([][]int, w-from+1)
	for i := range lengths {
		lengths[i] = make([]int, g-from+1)
	}
	for i := w - from - 1; i >= 0; i-- {
		for j := g - from - 1; j >= 0; j-- {
			if matches(want[from+i], got[from+j]) {
				lengths[i][j] = lengths[i+1][j+1] + 1
			} else {
				lengths[i][j] = max(lengths[i+1][j], lengths[i][j+1])
			}
		}
	}
	var pairs [][2]int
	for i, j := 0, 0; i < w-from && j < g-from; {
		switch {
		case matches(want[from+i], got[from+j]):
			pairs = append(pairs, [2]int{from + i, from + j})
			i, j = i+1, j+1
		case lengths[i+1][j] >= lengths[i][j+1]:
			i++
		default:
			j++
		}
	}
	return pairs
}

// updated returns the text of the file with the actual results in place of the expected ones. ok is
// false if the ways of running disagree.
func (s *Scenario) updated(failures []Failure) (text []byte, ok bool) {
	lines := slices.Clone(s.lines)
	for _, f := range slices.Backward(failures) { // backwards, so that line numbers stay valid
		if f.Line == 0 {
			return nil, false
		}
		i := slices.IndexFunc(s.commands, func(c command) bool { return c.line == f.Line })
		results := make([]string, len(f.got))
		for n, line := range f.got {
			results[n] = "  " + line
		}
		lines = slices.Replace(lines, f.Line, f.Line+len(s.commands[i].below), results...)
	}
	return []byte(strings.Join(lines, "\n")), true
}
