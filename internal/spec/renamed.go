package spec

import "strings"

// Renaming is a word of files that had another name before version 0.1.0.
type Renaming struct {
	File    string // the kind of file; "" is every file that has the mapping
	Mapping string // the mapping that contains the word; "" is the file itself
	Old     string // the old word, or `word: value` for a renamed value
	New     string // the new text
}

// Renamed lists the renamed words of files. docs/upgrading.md has a row for each.
var Renamed = []Renaming{
	{"pipeline", "", "answers", "replies"},
	{"pipeline", "", "objects", "content"},
	{"pipeline", "breaker", "open: park", "open: queue"},
	{"pipeline", "dlq", "abort_above", "stop_above"},
	{"pipeline", "files", "compress", "compression"},
	{"pipeline", "journal", "keep", "retention"},
	{"pipeline", "lookup", "keep", "cache: {ttl: ...}"},
	{"pipeline", "lookup", "keep_max", "cache: {ttl: ..., max: ...}"},
	{"pipeline", "lookup", "size", "batch: {size: ...}"},
	{"pipeline", "partial", "every", "interval"},
	{"gateway", "heartbeat", "every", "interval"},
	{"gateway", "pipeline", "unanswered", "unreplied"},
	{"", "engine", "groups", "group_protocol"},
	{"", "engine", "group_protocol: server", "group_protocol: consumer"},
	{"", "engine", "replication", "replication_factor"},
}

// renamed reports whether the word at path, or its value, has a new name. If so, it adds an error.
func (r *Reader) renamed(offset int, path, value string) bool {
	mapping, word := "", path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		mapping, word = path[:i], path[i+1:]
		mapping = mapping[strings.LastIndexByte(mapping, '.')+1:]
	}
	if value != "" {
		word += ": " + value
	}
	now := NewWord(r.Source.kind, mapping, word)
	if now != "" {
		r.Fail(offset, path, "`"+word+"` is now `"+now+"`", seeRenames)
	}
	return now != ""
}

// RenamedProblem returns the problem for an old word, or an old `word: value`, in a mapping of any
// file. It returns nil if the word was not renamed. The path of the problem is the word.
func RenamedProblem(mapping, old string) *Problem {
	now := NewWord("", mapping, old)
	if now == "" {
		return nil
	}
	word, _, _ := strings.Cut(old, ":")
	return &Problem{Path: word, Message: "`" + old + "` is now `" + now + "`", Hint: seeRenames}
}

const seeRenames = "docs/upgrading.md lists all renames"

// NewWord returns the new text for an old word of a mapping, or "" if the word was not renamed.
// file is the kind of the file.
func NewWord(file, mapping, old string) string {
	for _, w := range Renamed {
		if w.Mapping == mapping && w.Old == old && (w.File == "" || w.File == file) {
			return w.New
		}
	}
	return ""
}
