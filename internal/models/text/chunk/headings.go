package chunk

import (
	"iter"
	"strings"
	"unicode/utf8"
)

// section is a heading of Markdown and the text up to the next heading.
type section struct {
	path        string // the titles of the headings around it and its own; "" before the first one
	title, body span   // title is the line of the heading
}

// sections yields the sections of a text in Markdown. A heading is a line of one to six `#` and a
// title, outside fenced code.
func sections(text string) iter.Seq[section] {
	return func(yield func(section) bool) {
		var now section
		var titles [6]string
		fence := ""
		for at := 0; at < len(text); {
			line := text[at:]
			if end := strings.IndexByte(line, '\n'); end >= 0 {
				line = line[:end+1]
			}
			next := at + len(line)
			level, title := headingOf(line)
			if fence = fenced(fence, line); fence == "" && level > 0 {
				if now.body.to = at; at > 0 && !yield(now) {
					return
				}
				titles[level-1] = title
				clear(titles[level:])
				now = section{path: path(titles[:level]), title: span{from: at, to: next}, body: span{from: next}}
			}
			at = next
		}
		if now.body.to = len(text); text != "" {
			yield(now)
		}
	}
}

// path joins the titles that are not empty.
func path(titles []string) string {
	var there []string
	for _, title := range titles {
		if title != "" {
			there = append(there, title)
		}
	}
	return strings.Join(there, " > ")
}

// indented is the most spaces before a heading or fence.
const indented = 3

// unindented returns a line without leading spaces and trailing white space. It returns "" if there
// are more leading spaces than a heading may have.
func unindented(line string) string {
	line = strings.TrimRight(line, " \t\r\n")
	text := strings.TrimLeft(line, " ")
	if len(line)-len(text) > indented {
		return ""
	}
	return text
}

// headingOf returns the level of a heading, from 1 to 6, and its title. The level is 0 for other
// lines.
func headingOf(line string) (level int, title string) {
	line = unindented(line)
	title = strings.TrimLeft(line, "#")
	level = len(line) - len(title)
	if level < 1 || level > 6 || title != "" && title[0] != ' ' && title[0] != '\t' {
		return 0, ""
	}
	title = strings.Trim(title, " \t")
	if bare := strings.TrimRight(title, "#"); bare == "" || bare[len(bare)-1] == ' ' {
		title = strings.TrimRight(bare, " \t")
	}
	return level, cut(title)
}

// titleMax is the most bytes of a title in Chunk.Heading. The text of the section's first chunk has
// the whole title.
const titleMax = 200

// cut returns the beginning of a title. It does not split a character.
func cut(title string) string {
	if len(title) <= titleMax {
		return title
	}
	end := titleMax
	for !utf8.RuneStart(title[end]) {
		end--
	}
	return title[:end]
}

// fenced returns the fence that ends the fenced code after a line, or "" if the text is not in
// fenced code.
func fenced(fence, line string) string {
	line = unindented(line)
	switch {
	case fence == "" && (strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~")):
		return line[:len(line)-len(strings.TrimLeft(line, line[:1]))]
	case fence != "" && strings.HasPrefix(line, fence) && strings.Trim(line, fence[:1]) == "":
		return ""
	}
	return fence
}
