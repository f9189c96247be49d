package main

import (
	"fmt"
	"strings"
)

const bashHead = `# bash completion for %[1]s
%[2]s() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb= w words
    for w in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $verb:$w in%[3]s
        esac
    done
    if [ "$prev" = = ]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi # bash splits at =
    if [ "$cur" = = ]; then cur=; fi
`

// ownJobs prints the ids of the user's jobs of the last seven days. The filter is for bash, which executes what it
// expands: a step, whose name is not the user's, is a part of an id.
const ownJobs = `rt-job --csv 2>/dev/null | sed 1d | cut -d, -f1 | grep -x "[0-9A-Za-z][0-9A-Za-z_.+-]*"`

// bash returns a script for bash, without the functions of bash-completion.
func bash(root command) string {
	function := "_" + strings.ReplaceAll(root.name, "-", "_")
	var b, selects, values, words, arguments strings.Builder
	root.walk(func(c command) {
		for _, v := range c.verbs {
			fmt.Fprintf(&selects, "\n        %s:%s) verb=%s ;;", bashWord(c.path), v.name, bashWord(v.path))
		}
		scope := bashWord(c.path)
		if c.path == "" {
			scope = "*"
		}
		offered := []string{}
		for _, v := range c.verbs {
			offered = append(offered, v.name)
		}
		for _, f := range c.flags {
			offered = append(offered, f.names[0])
			if f.value == "" {
				continue
			}
			var patterns []string
			for _, n := range f.names {
				patterns = append(patterns, scope+":"+n)
			}
			fmt.Fprintf(&values, "    %s) %sreturn ;;\n", strings.Join(patterns, " | "), bashValues(f))
		}
		fmt.Fprintf(&words, "    %s) words='%s' ;;\n", bashWord(c.path), strings.Join(offered, " "))
		if command := map[string]string{"FILE": "-f", "JOB": "-f -X '!*.db' -- \"$cur\") $(compgen -W \"$(" + ownJobs + ")\"", "command": "-c"}[c.args]; command != "" {
			fmt.Fprintf(&arguments, "    %s:*) COMPREPLY+=($(compgen %s -- \"$cur\")) ;;\n", bashWord(c.path), command)
		}
	})
	if selects.Len() == 0 {
		selects.WriteString("\n        *) break ;; # it has no verbs")
	}
	fmt.Fprintf(&b, bashHead, root.name, function, selects.String())
	// The patterns of a verb come before the program's patterns, which match each verb.
	fmt.Fprintf(&b, "    case $verb:$prev in\n%s    esac\n", sortScopes(values.String()))
	fmt.Fprintf(&b, "    case $verb in\n%s    esac\n", words.String())
	b.WriteString("    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n")
	if arguments.Len() > 0 {
		fmt.Fprintf(&b, "    case $verb:$cur in\n    *:-*) ;;\n%s    esac\n", arguments.String())
	}
	fmt.Fprintf(&b, "}\ncomplete -o filenames -F %s %s\n", function, root.name)
	return b.String()
}

// bashWord is the path of a verb as one word.
func bashWord(path string) string {
	if path == "" || strings.Contains(path, " ") {
		return quote(path)
	}
	return path
}

func bashValues(f flag) string {
	switch {
	case len(f.values) > 0:
		return fmt.Sprintf("COMPREPLY=($(compgen -W '%s' -- \"$cur\")); ", strings.Join(f.values, " "))
	case f.takesFile():
		return "COMPREPLY=($(compgen -f -- \"$cur\")); "
	case f.takesDir():
		return "COMPREPLY=($(compgen -d -- \"$cur\")); "
	}
	return ""
}

func sortScopes(lines string) string {
	var verbs, all strings.Builder
	for line := range strings.Lines(lines) {
		if strings.HasPrefix(line, "    *:") {
			all.WriteString(line)
			continue
		}
		verbs.WriteString(line)
	}
	return verbs.String() + all.String()
}
