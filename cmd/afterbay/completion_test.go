package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestBashCompletesCommandsAndFlags loads the script into bash and asks it as a terminal does.
func TestBashCompletesCommandsAndFlags(t *testing.T) {
	t.Parallel()
	script := must(t, "", "completion", "bash")
	for _, c := range []struct {
		words []string // the last one is being typed
		has   []string
		not   []string
	}{
		{[]string{""}, []string{"run", "dlq", "completion", "serve"}, []string{"redrive", "--help"}},
		{[]string{"ru"}, []string{"run"}, []string{"serve"}},
		{[]string{"dlq", ""}, []string{"ls", "redrive"}, []string{"run"}},
		{[]string{"dlq", "redrive", "--da"}, []string{"--data"}, []string{"--engine"}},
		{[]string{"run", "run", "--leave"}, []string{"--leave-group"}, nil}, // a file named as a command is no command
		{[]string{"run", "file.yaml", "pipe"}, nil, []string{"pipe"}},
	} {
		words := "afterbay"
		for _, word := range c.words {
			words += " " + quoted(word, `'\''`)
		}
		ask := script + "\nCOMP_WORDS=(" + words + ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_afterbay\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n"
		bash := exec.CommandContext(t.Context(), "bash", "-u", "-c", ask)
		out, err := bash.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v: %s", c.words, err, out)
		}
		got := "\n" + string(out)
		for _, word := range c.has {
			if !strings.Contains(got, "\n"+word+"\n") {
				t.Errorf("%q: no %q in %q", c.words, word, out)
			}
		}
		for _, word := range c.not {
			if strings.Contains(got, "\n"+word+"\n") {
				t.Errorf("%q: %q is in %q", c.words, word, out)
			}
		}
	}
}

// TestScriptsCompleteWhatTheHelpShows compares the scripts with the help.
func TestScriptsCompleteWhatTheHelpShows(t *testing.T) {
	t.Parallel()
	for shell, forms := range map[string]struct{ command, flag string }{
		"bash": {" %s ", " %s "}, "zsh": {"('%s:", "('%s:"}, "fish": {" -a %s ", " -l %s "},
	} {
		script := strings.NewReplacer(`"`, ` " `).Replace(must(t, "", "completion", shell))
		commands := 0
		for line := range strings.Lines(must(t, "", "--help")) {
			words := strings.Fields(line)
			if !strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "   ") || len(words) == 0 || strings.HasPrefix(words[0], "-") {
				continue
			}
			commands++
			if want := strings.ReplaceAll(forms.command, "%s", words[0]); !strings.Contains(script, want) {
				t.Errorf("%s: no %q", shell, want)
			}
		}
		if commands < 30 {
			t.Fatalf("%d commands in the help", commands)
		}
		for _, flag := range []string{"until-idle", "state-memory", "leave-group"} {
			if shell != "fish" {
				flag = "--" + flag
			}
			if want := strings.ReplaceAll(forms.flag, "%s", flag); !strings.Contains(script, want) {
				t.Errorf("%s: no %q", shell, want)
			}
		}
	}
	if r := command(t, "", "completion", "tcsh"); r.code != exitUsage || !strings.Contains(r.stderr, "bash") {
		t.Errorf("%+v", r)
	}
}
