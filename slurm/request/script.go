package request

import (
	"bufio"
	"io"
	"slices"
	"strings"
)

// shortNames are the short options with a value that a Request uses.
var shortNames = map[byte]string{
	'A': "account", 'c': "cpus-per-task", 'D': "chdir", 'G': "gpus", 'J': "job-name", 'M': "clusters", 'n': "ntasks", 'N': "nodes", 'p': "partition", 't': "time",
}

// longNames are the long options with a value that a Request uses.
var longNames = []string{
	"account", "chdir", "clusters", "cpus-per-gpu", "cpus-per-task", "gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres", "job-name", "mem",
	"mem-per-cpu", "mem-per-gpu", "nodes", "ntasks", "ntasks-per-node", "partition", "time", "tres-per-task",
}

// ReadScript adds the options of the #SBATCH lines of a batch script. As sbatch does, it reads up to the first command.
func (o Options) ReadScript(script io.Reader) error {
	lines := bufio.NewScanner(script)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if options, isOptions := strings.CutPrefix(line, "#SBATCH"); isOptions {
			o.Read(fields(options))
			continue
		}
		rest := strings.TrimSpace(line)
		if isCommand := rest != "" && rest[0] != '#'; isCommand {
			return nil
		}
	}
	return lines.Err()
}

// Read adds the options of a command line. It leaves out those that a Request does not use.
func (o Options) Read(args []string) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		name, value, hasValue := "", "", false
		switch long, isLong := strings.CutPrefix(arg, "--"); {
		case isLong:
			name, value, hasValue = strings.Cut(long, "=")
		case arg == ":" || arg == "hetjob" || arg == "packjob":
			o["hetjob"] = ""
		case len(arg) > 1 && arg[0] == '-':
			name = shortNames[arg[1]]
			value, hasValue = arg[2:], len(arg) > 2
		}
		switch {
		case name == "exclusive":
			o[name] = value
		case !isUsed(name):
		case hasValue:
			o[name] = value
		case len(args) > 0:
			o[name] = args[0]
			args = args[1:]
		}
	}
}

func isUsed(name string) bool {
	return slices.Contains(longNames, name)
}

// fields splits the options of an #SBATCH line. Quotes keep blanks, and # begins a comment.
func fields(line string) (list []string) {
	var field strings.Builder
	isOpen, quote := false, rune(0)
	for _, c := range line {
		isBlank := c == ' ' || c == '\t'
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			field.WriteRune(c)
		case c == '"' || c == '\'':
			isOpen, quote = true, c
		case c == '#' && !isOpen:
			return list
		case !isBlank:
			isOpen = true
			field.WriteRune(c)
		case isOpen:
			list = append(list, field.String())
			isOpen = false
			field.Reset()
		}
	}
	if isOpen {
		list = append(list, field.String())
	}
	return list
}
