package main

import (
	"fmt"
	"io"
	"strings"
)

func bashScript(w io.Writer, all []completions) {
	fmt.Fprintf(w, `# Completion of afterbay for bash. Load it with: source <(afterbay completion bash)
_afterbay() {
	local at="" word current="${COMP_WORDS[COMP_CWORD]}" commands="" flags=""
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		case "$at/$word" in
		%s) at="$at/$word" ;;
		esac
	done
	case "$at" in
`, paths(all, "|"))
	for _, c := range all {
		var commands, flags []string
		for _, command := range c.commands {
			commands = append(commands, command.Name)
		}
		for _, flag := range c.flags {
			flags = append(flags, "--"+flag.Name)
		}
		fmt.Fprintf(w, "\t%q) commands=%q flags=%q ;;\n", c.path, strings.Join(commands, " "), strings.Join(flags, " "))
	}
	fmt.Fprint(w, `	esac
	[[ $current == -* ]] && commands=$flags
	COMPREPLY=($(compgen -W "$commands" -- "$current"))
}
complete -o default -F _afterbay afterbay
`)
}

func zshScript(w io.Writer, all []completions) {
	fmt.Fprintf(w, `#compdef afterbay
# Completion of afterbay for zsh. Load it with: source <(afterbay completion zsh)
_afterbay() {
	local at="" word
	local -a commands flags
	for word in "${(@)words[2,CURRENT-1]}"; do
		case "$at/$word" in
		%s) at="$at/$word" ;;
		esac
	done
	case "$at" in
`, paths(all, "|"))
	for _, c := range all {
		fmt.Fprintf(w, "\t%q)", c.path)
		for _, command := range c.commands {
			fmt.Fprintf(w, "\n\t\tcommands+=(%s)", quoted(command.Name+":"+firstSentence(command.Help), `'\''`))
		}
		for _, flag := range c.flags {
			fmt.Fprintf(w, "\n\t\tflags+=(%s)", quoted("--"+flag.Name+":"+firstSentence(flag.Help), `'\''`))
		}
		fmt.Fprint(w, "\n\t\t;;\n")
	}
	fmt.Fprint(w, `	esac
	if [[ $PREFIX == -* ]]; then
		_describe -o 'flag' flags
	elif (( $#commands )); then
		_describe 'command' commands
	else
		_files
	fi
}
if [[ $funcstack[1] == _afterbay ]]; then
	_afterbay "$@"
else
	compdef _afterbay afterbay
fi
`)
}

func fishScript(w io.Writer, all []completions) {
	fmt.Fprintf(w, `# Completion of afterbay for fish. Load it with: afterbay completion fish | source
function __afterbay_at
	set -l at ""
	for word in (commandline -opc)[2..-1]
		switch "$at/$word"
			case %s
				set at "$at/$word"
		end
	end
	test "$at" = "$argv[1]"
end
`, paths(all, " "))
	for _, c := range all {
		when := "complete -c afterbay -n '__afterbay_at \"" + c.path + "\"'"
		for _, command := range c.commands {
			fmt.Fprintf(w, "%s -f -a %s -d %s\n", when, command.Name, quoted(firstSentence(command.Help), `\'`))
		}
		for _, flag := range c.flags {
			value := ""
			if !flag.IsBool() {
				value = " -r"
			}
			fmt.Fprintf(w, "%s -l %s%s -d %s\n", when, flag.Name, value, quoted(firstSentence(flag.Help), `\'`))
		}
	}
}
