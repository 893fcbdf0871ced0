package main

import (
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell that reads the script: bash, zsh or fish."`
}

// Run prints the script of a shell.
func (c *completionCommand) Run(a *app) error {
	words := completionsOf("", a.commands)
	scripts := map[string]func(io.Writer, []completions){"bash": bashScript, "zsh": zshScript, "fish": fishScript}
	scripts[c.Shell](a.stdout, words)
	return nil
}

// completions are the words that can follow a command.
type completions struct {
	path     string // "" is afterbay, /dlq/redrive is a command
	commands []*kong.Node
	flags    []*kong.Flag
}

// completionsOf returns the words that follow a command and those that follow its subcommands.
func completionsOf(path string, node *kong.Node) []completions {
	children := slices.DeleteFunc(slices.Clone(node.Children), func(n *kong.Node) bool { return n.Hidden })
	all := []completions{{path, children, node.Flags}}
	for _, child := range children {
		all = append(all, completionsOf(path+"/"+child.Name, child)...)
	}
	return all
}

// paths lists the commands, without afterbay itself.
func paths(all []completions, separator string) string {
	var list []string
	for _, c := range all[1:] {
		list = append(list, c.path)
	}
	return strings.Join(list, separator)
}

// firstSentence shortens the help of a command or flag.
func firstSentence(help string) string {
	sentence, _, _ := strings.Cut(help, ". ")
	return strings.TrimSuffix(sentence, ".")
}

// quoted puts a text in single quotes; escape is how the shell writes one inside.
func quoted(text, escape string) string {
	return "'" + strings.ReplaceAll(text, "'", escape) + "'"
}
