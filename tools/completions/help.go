package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// command is a program or one of its verbs.
type command struct {
	name  string // of a verb below another one: the last word
	path  string // the words from the first verb on, empty for the program
	about string
	flags []flag
	verbs []command
	args  string // what the other arguments are: "FILE", "JOB", "command" or nothing
}

// flag is a flag with its names, the longest first.
type flag struct {
	names  []string
	value  string // as the help calls it; empty for a flag without a value
	values []string
	about  string
}

func (f flag) takesFile() bool { return f.value == "FILE" || f.value == "JOB" }
func (f flag) takesDir() bool  { return f.value == "DIR" }

// walk calls do for the command and all verbs below it.
func (c command) walk(do func(command)) {
	do(c)
	for _, v := range c.verbs {
		v.walk(do)
	}
}

var (
	flagLine   = regexp.MustCompile(`^  +(--?[a-z][a-z.-]*(?: [^\s,]+(?:,\S+)*)?(?:, --?[a-zA-Z][a-z.-]*(?: [^\s,]+(?:,\S+)*)?)*)(?:  +(.*))?$`)
	flagName   = regexp.MustCompile(`^--?[a-zA-Z]`)
	verbLine   = regexp.MustCompile(`^   ([a-z]+)  +(.*)$`)
	otherLine  = regexp.MustCompile(`^\s+(\S.*)$`)
	ofVariable = regexp.MustCompile(` *\[\$[A-Z_]+\]`)
	byDefault  = regexp.MustCompile(` *\(default: [^)]*\)`)
)

// describe reads the help of a program and of its verbs.
func describe(help func(verb ...string) (string, error), program string) (command, error) {
	root, err := describeVerb(help, nil)
	if err != nil {
		return command{}, err
	}
	root.name = program
	if len(root.flags) == 0 {
		return command{}, fmt.Errorf("the help shows no flags")
	}
	return root, nil
}

func describeVerb(help func(verb ...string) (string, error), path []string) (command, error) {
	text, err := help(path...)
	if err != nil {
		return command{}, err
	}
	c := parse(text)
	c.path = strings.Join(path, " ")
	if rest := usageVerbs(text); len(rest) > 0 {
		c.verbs, c.flags = splitByUsage(rest, text, c.flags)
		return c, nil
	}
	for i, v := range c.verbs {
		below, err := describeVerb(help, append(slices.Clone(path), v.name))
		if err != nil {
			return command{}, err
		}
		below.name, below.about = v.name, v.about
		c.verbs[i] = below
	}
	return c, nil
}

// parse reads one help text.
func parse(text string) (c command) {
	heading := ""
	var about *string // of the entry above, for its further lines
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.TrimSpace(line) == "" {
			about = nil
			continue
		}
		if line == strings.TrimSpace(line) {
			heading, about = line, nil
			continue
		}
		if m := flagLine.FindStringSubmatch(line); m != nil {
			c.flags = append(c.flags, parseFlag(m[1], m[2]))
			about = &c.flags[len(c.flags)-1].about
		} else if m := verbLine.FindStringSubmatch(line); heading == "COMMANDS:" && m != nil {
			c.verbs = append(c.verbs, command{name: m[1], about: m[2]})
			about = &c.verbs[len(c.verbs)-1].about
		} else if m := otherLine.FindStringSubmatch(line); about != nil && m != nil {
			*about = strings.TrimSpace(*about + " " + m[1])
		} else if heading == "USAGE:" && !strings.Contains(line, " VERB ") {
			c.args = max(c.args, arguments(line))
		}
	}
	for i := range c.flags {
		f := &c.flags[i]
		f.values = valuesOf(f.value, f.about)
		f.about = byDefault.ReplaceAllString(ofVariable.ReplaceAllString(f.about, ""), "")
	}
	return c
}

// arguments returns what a line of the usage has as its last argument.
func arguments(usage string) string {
	for _, kind := range []string{"FILE", "JOB", "command"} {
		if regexp.MustCompile(`\[?\b` + kind + `\b(\.\.\.)?\]?( \[args\.\.\.\])?$`).MatchString(usage) {
			return kind
		}
	}
	return ""
}

// parseFlag parses "--output FILE, -o FILE". The flag package of the standard library shows one
// hyphen and takes two.
func parseFlag(names, about string) flag {
	f := flag{about: about}
	for _, word := range regexp.MustCompile(`, | `).Split(names, -1) {
		if !flagName.MatchString(word) {
			f.value = word
			continue
		}
		if bare := strings.TrimLeft(word, "-"); len(bare) > 1 {
			word = "--" + bare
		}
		f.names = append(f.names, word)
	}
	slices.SortStableFunc(f.names, func(a, b string) int { return len(b) - len(a) })
	return f
}

// valuesOf returns the values of a flag if its help has all of them. The value may be "spec|live". The description
// may be "FORM: text, json or markdown" or "FORM of the jobs: text or json".
func valuesOf(value, about string) []string {
	if strings.Contains(value, "|") {
		return strings.Split(value, "|")
	}
	if value == "" {
		return nil
	}
	const word = `[a-z][a-z-]*`
	list := regexp.MustCompile(`\b` + value + `(?: of the [a-z]+)?: (` + word + `(?:, ` + word + `)*(?:,? or ` + word + `)?)(?:$| \(|;)`)
	m := list.FindStringSubmatch(about)
	if m == nil {
		return nil
	}
	values := regexp.MustCompile(`,? or |, `).Split(m[1], -1)
	if len(values) < 2 {
		return nil
	}
	return values
}

// usageVerbs returns the lines "PROGRAM [--config FILE] VERB [flags]" of a help that has no list of
// commands, from the verb on.
func usageVerbs(text string) (lines []string) {
	head, rest, found := strings.Cut(text, "usage: ")
	if !found || head != "" {
		return nil
	}
	rest, _, _ = strings.Cut(rest, "\n\n")
	line := regexp.MustCompile(`^\s*\S+ (?:\[[^\]]*\] )*([a-z]+\b.*)$`)
	for l := range strings.Lines(rest) {
		m := line.FindStringSubmatch(strings.TrimRight(l, "\n"))
		if m != nil {
			lines = append(lines, m[1])
		}
	}
	return lines
}

// splitByUsage gives each verb the flags that its line of the usage names. Flags that no line names
// belong to the program.
func splitByUsage(lines []string, text string, flags []flag) (verbs []command, others []flag) {
	used := map[string]bool{}
	for _, line := range lines {
		name, rest, _ := strings.Cut(line, " ")
		c := command{name: name, path: name}
		about := regexp.MustCompile(`(?m)^\S+ ` + name + ` (.*?)(?:[.:]?$|: |\. )`)
		if m := about.FindStringSubmatch(text); m != nil {
			c.about = m[1]
		}
		for _, f := range flags {
			if regexp.MustCompile(regexp.QuoteMeta(f.names[0]) + `\b`).MatchString(rest) {
				used[f.names[0]] = true
				f.about = strings.TrimPrefix(f.about, name+": ")
				c.flags = append(c.flags, f)
			}
		}
		verbs = append(verbs, c)
	}
	for _, f := range flags {
		if !used[f.names[0]] {
			others = append(others, f)
		}
	}
	others = append(others, flag{names: []string{"--help"}, about: "show help"})
	return verbs, others
}
