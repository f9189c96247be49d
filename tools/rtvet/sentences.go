package main

import (
	"go/ast"
	"regexp"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// maxWords is the length of a sentence that a reader follows at the first reading.
const maxWords = 25

var sentences = &analysis.Analyzer{
	Name: "sentences",
	Doc:  "reports sentences of comments with more than 25 words",
	Run:  reportLongSentences,
}

var sentenceEnd = regexp.MustCompile(`[.!?]["')]*(?:\s|$)`)

func reportLongSentences(pass *analysis.Pass) (any, error) {
	for _, file := range production(pass) {
		for _, group := range file.Comments {
			for _, paragraph := range paragraphsOf(group) {
				for _, sentence := range sentenceEnd.Split(paragraph, -1) {
					if words := len(strings.Fields(sentence)); words > maxWords {
						pass.Reportf(group.Pos(), "a sentence has %d words, more than %d: %q", words, maxWords, sentence)
					}
				}
			}
		}
	}
	return nil, nil
}

// paragraphsOf returns the prose of a comment: not its indented lines, such as lists and code.
func paragraphsOf(group *ast.CommentGroup) []string {
	var paragraphs []string
	text := ""
	for line := range strings.Lines(group.Text()) {
		isProse := strings.TrimSpace(line) != "" && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t")
		if isProse {
			text += line
			continue
		}
		paragraphs = append(paragraphs, text)
		text = ""
	}
	return append(paragraphs, text)
}
