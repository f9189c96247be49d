package main

import (
	"fmt"
	"strings"
)

// zsh returns an autoload function of zsh.
func zsh(root command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#compdef %s\n", root.name)
	root.walk(func(c command) { zshFunction(&b, root, c) })
	fmt.Fprintf(&b, "\n_%s \"$@\"\n", root.name)
	return b.String()
}

// zshJobs offers the ids of the user's jobs.
const zshJobs = `compadd -- ${(f)"$(` + ownJobs + `)"}`

func zshName(root, c command) string {
	return strings.ReplaceAll(strings.TrimSpace("_"+root.name+" "+c.path), " ", "-")
}

func zshFunction(b *strings.Builder, root, c command) {
	fmt.Fprintf(b, "\n%s() {\n", zshName(root, c))
	if len(c.verbs) > 0 {
		b.WriteString("\tlocal curcontext=$curcontext state line ret=1\n\tlocal -a verbs\n\tverbs=(\n")
		for _, v := range c.verbs {
			fmt.Fprintf(b, "\t\t%s\n", quote(v.name+":"+v.about))
		}
		b.WriteString("\t)\n")
	}
	b.WriteString("\t_arguments -s -S")
	if len(c.verbs) > 0 {
		b.WriteString(" -C")
	}
	for _, f := range c.flags {
		for i, name := range f.names {
			spec := name
			if others := without(f.names, i); len(others) > 0 {
				spec = "(" + strings.Join(others, " ") + ")" + name
			}
			if f.value != "" && strings.HasPrefix(name, "--") {
				spec += "="
			}
			spec += "[" + zshText(f.about) + "]" + zshValue(f)
			fmt.Fprintf(b, " \\\n\t\t%s", quote(spec))
		}
	}
	switch {
	case len(c.verbs) > 0:
		fmt.Fprintf(b, " \\\n\t\t'1:verb:->verb' '*::argument:->arguments' && ret=0\n\tcase $state in\n")
		jobs := ""
		if c.args == "JOB" {
			jobs = "; " + zshJobs + " && ret=0"
		}
		fmt.Fprintf(b, "\tverb) _describe verb verbs && ret=0%s ;;\n\targuments)\n\t\tcase $line[1] in\n", jobs)
		for _, v := range c.verbs {
			fmt.Fprintf(b, "\t\t%s) %s && ret=0 ;;\n", v.name, zshName(root, v))
		}
		if jobs != "" {
			fmt.Fprintf(b, "\t\t*) %s && ret=0 ;;\n", zshJobs)
		}
		b.WriteString("\t\tesac ;;\n\tesac\n\treturn ret\n")
	case c.args == "FILE":
		b.WriteString(" \\\n\t\t'*:file:_files'\n")
	case c.args == "JOB":
		b.WriteString(" \\\n\t\t'*:job or file:{ " + zshJobs + "; _files -g \"*.db\" }'\n")
	case c.args == "command":
		b.WriteString(" \\\n\t\t'(-)1:command:_command_names -e' '*::argument:_normal'\n")
	default:
		b.WriteString("\n")
	}
	b.WriteString("}\n")
}

func zshValue(f flag) string {
	if f.value == "" {
		return ""
	}
	action := " "
	switch {
	case len(f.values) > 0:
		action = "(" + strings.Join(f.values, " ") + ")"
	case f.takesFile():
		action = "_files"
	case f.takesDir():
		action = "_files -/"
	}
	return ":" + zshText(f.value) + ":" + action
}

var zshEscape = strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `:`, `\:`)

func zshText(s string) string { return zshEscape.Replace(s) }

// fish returns a script of fish.
func fish(root command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# fish completion for %s\ncomplete -c %s -f\n", root.name, root.name)
	root.walk(func(c command) {
		condition := fishCondition(c)
		for _, v := range c.verbs {
			fmt.Fprintf(&b, "complete -c %s%s -a %s -d %s\n", root.name, condition+fishNoVerb(c), v.name, fishQuote(v.about))
		}
		for _, f := range c.flags {
			fmt.Fprintf(&b, "complete -c %s%s%s -d %s\n", root.name, condition, fishFlag(f), fishQuote(f.about))
		}
		if action := map[string]string{"FILE": "-F", "JOB": "-a '(__fish_complete_suffix .db) (" + ownJobs + ")'", "command": "-x -a '(__fish_complete_subcommand)'"}[c.args]; action != "" {
			if len(c.verbs) > 0 {
				condition += fishNoVerb(c)
			}
			fmt.Fprintf(&b, "complete -c %s%s %s\n", root.name, condition, action)
		}
	})
	return b.String()
}

// fishCondition: the words of the verb stand on the command line.
func fishCondition(c command) (condition string) {
	for _, word := range strings.Fields(c.path) {
		condition += fmt.Sprintf(" -n '__fish_seen_subcommand_from %s'", word)
	}
	return condition
}

// fishNoVerb: none of the verbs stands on the command line.
func fishNoVerb(c command) string {
	var names []string
	for _, v := range c.verbs {
		names = append(names, v.name)
	}
	return fmt.Sprintf(" -n 'not __fish_seen_subcommand_from %s'", strings.Join(names, " "))
}

func fishFlag(f flag) (options string) {
	for _, name := range f.names {
		if long, is := strings.CutPrefix(name, "--"); is {
			options += " -l " + long
		} else {
			options += " -s " + strings.TrimPrefix(name, "-")
		}
	}
	switch {
	case f.value == "":
	case len(f.values) > 0:
		options += " -x -a '" + strings.Join(f.values, " ") + "'"
	case f.takesFile():
		options += " -r -F"
	case f.takesDir():
		options += " -x -a '(__fish_complete_directories)'"
	default:
		options += " -x"
	}
	return options
}

// quote quotes a text for a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

func without(names []string, i int) []string {
	return append(append([]string{}, names[:i]...), names[i+1:]...)
}
