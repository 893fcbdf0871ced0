package spec

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// kinds identify the kind of a file by a word at the beginning of the file or of a line, or by the
// members of a JSON object. The first match counts: a gateway file names its pipeline too.
var kinds = []struct {
	content *Content
	word    *regexp.Regexp
	members []string
}{
	{&GatewayFiles, topWord("gateway"), []string{"gateway", "pipeline", "keys"}},
	{&PipelineFiles, topWord("pipeline|steps"), []string{"pipeline", "input", "steps"}},
	{&ManifestFiles, topWord("model"), []string{"model", "version", "file", "inputs", "outputs"}},
	{&TokenFiles, topWord("tokens"), []string{"tokens"}},
	{&KeysFiles, topWord("keys"), []string{"keys", "jwks", "legacy"}},
}

func topWord(word string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^(\x{FEFF})?(\{\s*)?["']?(` + word + `)["']?\s*:`)
}

// IsFile reports whether a file is of a kind, valid or not.
func IsFile(path string, c *Content) bool {
	data, err := ReadFile(path)
	return err == nil && contentOf(data) == c
}

// contentOf returns the kind of a YAML or JSON file, or nil if it is unknown.
func contentOf(data []byte) *Content {
	var object map[string]json.RawMessage
	isObject := json.Unmarshal(bytes.TrimPrefix(data, []byte("\uFEFF")), &object) == nil
	for _, k := range kinds {
		if isObject && hasMembers(object, k.members) || !isObject && k.word.Match(data) {
			return k.content
		}
	}
	return nil
}

// hasMembers reports whether an object has two of the names, or no other names. A single name may
// be a field of an event.
func hasMembers(object map[string]json.RawMessage, names []string) bool {
	n := 0
	for _, name := range names {
		if _, ok := object[name]; ok {
			n++
		}
	}
	return n >= 2 || n > 0 && n == len(object)
}

// Foreign returns what a file contains, and a hint, if its content is not of kind c. It returns ""
// if the file may be of kind c.
func (c *Content) Foreign(filename string, data []byte) (is, hint string) {
	for _, magic := range []string{"\x1f\x8b", "\x28\xb5\x2f\xfd"} {
		if bytes.HasPrefix(data, []byte(magic)) {
			return "compressed", "unpack it, and name the " + c.Name + " file"
		}
	}
	for _, mark := range []string{"\xff\xfe", "\xfe\xff"} {
		if bytes.HasPrefix(data, []byte(mark)) {
			return "UTF-16", "save it as UTF-8"
		}
	}
	other := contentOf(data)
	switch {
	case other == c:
		return "", ""
	case other != nil:
		return "a " + other.Name + " file", c.instead(other)
	case len(data) <= MaxBytes && bytes.IndexByte(data, 0) >= 0:
		return "binary", "name a " + c.Name + " file: it is text, and starts with `" + c.word + ":`"
	case holdsEvents(filename, data):
		hint = "name a " + c.Name + " file"
		if c == &PipelineFiles {
			hint += ": `afterbay init --sample " + filename + "` writes one that fits the events"
		}
		return "a file of events", hint
	}
	return "", ""
}

// instead returns a hint for a file that contains other and not c.
func (c *Content) instead(other *Content) string {
	hint := "name a " + c.Name + " file: it starts with `" + c.word + ":`"
	if c == &PipelineFiles && other == &ManifestFiles {
		hint += ", and names the manifest as `models: {NAME: {file: FILE, version: N, outputs: ...}}`"
	}
	return hint
}

// holdsEvents reports whether a file has the name of a file of events, or consists of one JSON
// object for each line.
func holdsEvents(filename string, data []byte) bool {
	if slices.Contains([]string{".ndjson", ".jsonl", ".csv", ".tsv"}, strings.ToLower(filepath.Ext(filename))) {
		return true
	}
	line, _, _ := bytes.Cut(bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\uFEFF")), " \r\n"), []byte("\n"))
	line = bytes.TrimSpace(line)
	return len(line) > 2 && line[0] == '{' && json.Valid(line)
}
