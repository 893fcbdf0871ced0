package spec

import (
	"fmt"
	"strings"
)

// Section is one mapping of the file.
type Section struct {
	Path  string
	Words []About
}

// Sections calls visit for every mapping, in the order of the file.
func (d Docs) Sections(root Shape, visit func(Section)) {
	var walk func(path string, s Shape)
	walk = func(path string, s Shape) {
		switch s.Kind {
		case AMapping, AStep:
			words := s.Words()
			for i := range words {
				d.explain(&words[i])
			}
			visit(Section{path, words})
			for _, w := range words {
				walk(strings.TrimPrefix(path+"."+w.Name, "."), w.Shape)
			}
		case ANames:
			walk(path+".<name>", s.Of[0])
			if s.Last != nil {
				walk(path+".default", *s.Last)
			}
		case AList:
			if path != "inputs" { // the same fields as input
				walk(path+"[]", s.Of[0])
			}
		case Either:
			for _, alternative := range s.Of {
				walk(path, alternative)
			}
		}
	}
	walk("", root)
}

// Page returns the section as part of a reference page. A section without a path gets title.
func (s Section) Page(title string) string {
	var page strings.Builder
	if s.Path != "" {
		title = "`" + s.Path + "`"
	}
	fmt.Fprintf(&page, "\n## %s\n\n", title)
	if strings.HasSuffix(s.Path, "steps[]") {
		page.WriteString("Each step has one of these fields.\n\n")
	}
	page.WriteString("| field | value | default | meaning | example |\n|---|---|---|---|---|\n")
	var missing []string
	for _, w := range s.Words {
		switch {
		case w.Accepted:
			name := "`" + w.Name + "`"
			if w.Page != "" {
				name = "[" + name + "](" + w.Page + ")"
			}
			fmt.Fprintf(&page, "| %s | %s | %s | %s | `%s: %s` |\n", name, cell(valueOf(w.Shape)), cell(without(w)), strings.ReplaceAll(cell(w.Help), "*", `\*`), w.Name, cell(w.Example))
		case w.Refused == "":
			missing = append(missing, fmt.Sprintf("- `%s`: %s", w.Name, w.Instead))
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(&page, "\nNot built yet, and refused:\n\n%s\n", strings.Join(missing, "\n"))
	}
	return page.String()
}

// valueOf describes the values that a field accepts.
func valueOf(s Shape) string {
	plural := func(s Shape) string {
		text := valueOf(s)
		switch s.Kind {
		case AnyText:
			return strings.TrimPrefix(strings.TrimPrefix(text, "a "), "an ") + "s"
		case AWindow:
			return "windows"
		case AStep, TheSteps:
			return "steps"
		case AMapping:
			return "mappings"
		}
		return text
	}
	switch s.Kind {
	case AnyText:
		if strings.HasPrefix(s.Text, "a type") {
			return "a type"
		}
		return s.Text
	case AChoice:
		return "`" + strings.Join(s.Allowed, "`, `") + "`"
	case AWhole:
		return "a whole number, " + s.Low + " to " + s.High
	case ANumber:
		if s.Closed {
			return "a number" + s.Range()
		}
		if s.High != "" {
			return "a number above " + s.Low + ", up to " + s.High
		}
		return "a number"
	case ASwitch:
		return "`true`, `false`"
	case ATrue:
		return "`true`"
	case ADuration:
		return "a duration, " + s.Low + " to " + s.High
	case ASize:
		return "a size, " + s.Low + " to " + s.High
	case AWindow:
		return "a window"
	case AConstant:
		return "a constant"
	case ASecret:
		return "`${NAME}` of the environment"
	case AList:
		return "a list of " + plural(s.Of[0])
	case ANames:
		if s.Text != "" {
			return s.Text
		}
		return "names, each with " + valueOf(s.Of[0])
	case AMapping, AStep:
		return "a mapping"
	case TheSteps:
		return "a list of steps"
	}
	var parts []string
	for _, alternative := range s.Of {
		parts = append(parts, valueOf(alternative))
	}
	return strings.Join(parts, ", or ")
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// without describes what applies if a field is absent.
func without(w About) string {
	switch {
	case w.Required && w.Or != "":
		return "required, or `" + strings.ReplaceAll(w.Or, "|", "` or `") + "`"
	case w.Required:
		return "required"
	}
	return w.Absent
}
