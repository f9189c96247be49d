// Completions writes the completions of bash, zsh and fish for the programs of a directory, from
// what the programs print for --help.
//
//	completions BIN OUT
//
// It writes OUT/bash/PROGRAM, OUT/zsh/_PROGRAM and OUT/fish/PROGRAM.fish.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The programs that a person calls; the others are called by Slurm.
var programs = []string{"resource-tracker", "rt-job", "rt-spool", "rt-site", "rt-lake"}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: completions BIN OUT")
		os.Exit(2)
	}
	for _, program := range programs {
		if err := write(os.Args[1], program, os.Args[2]); err != nil {
			fmt.Fprintf(os.Stderr, "completions: %s: %v\n", program, err)
			os.Exit(1)
		}
	}
}

// write writes the three scripts of a program.
func write(bin, program, out string) error {
	root, err := describe(func(verb ...string) (string, error) {
		text, err := exec.Command(filepath.Join(bin, program), append(verb, "--help")...).Output()
		if err != nil {
			return "", fmt.Errorf("%s --help: %w", strings.Join(verb, " "), err)
		}
		return string(text), nil
	}, program)
	if err != nil {
		return err
	}
	for path, script := range map[string]string{
		"bash/" + program: bash(root), "zsh/_" + program: zsh(root), "fish/" + program + ".fish": fish(root),
	} {
		path = filepath.Join(out, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(script), 0o644); err != nil {
			return err
		}
	}
	return nil
}
