package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxErrors bounds what one file reports, so that a wrong file handed over as
// a list of a million sensors does not print a million lines.
const maxErrors = 50

// Error is one thing wrong in one file.
type Error struct {
	File string
	Line int    // from 1; 0 where the whole file is meant
	Col  int    // from 1, in characters; 0 where only the line is known
	Key  string // dotted path such as planner.range or sensors[2].uri; may be empty
	Msg  string // what is wrong; what to do
}

// Error is one line: file:line:column: key: message.
func (e Error) Error() string {
	var b strings.Builder
	b.WriteString(e.place())
	b.WriteString(": ")
	if e.Key != "" {
		b.WriteString(clip(e.Key) + ": ")
	}
	b.WriteString(oneLine(e.Msg))
	return b.String()
}

func (e Error) place() string {
	s := oneLine(e.File)
	if e.Line > 0 {
		s += ":" + strconv.Itoa(e.Line)
	}
	if e.Line > 0 && e.Col > 0 {
		s += ":" + strconv.Itoa(e.Col)
	}
	return s
}

// Errors is everything wrong in the files read, in the order of the lines. It
// is the type of every error that this package returns.
type Errors []Error

// Error has one line for each problem.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// oneLine keeps the promise of one line a problem for text that quotes files.
func oneLine(s string) string {
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(s)
}

// problems collects what is wrong in one file.
type problems struct {
	file string
	list Errors
	more int
}

func (p *problems) add(line, col int, key, format string, args ...any) {
	if len(p.list) == maxErrors {
		p.more++
		return
	}
	p.list = append(p.list, Error{p.file, line, col, key, fmt.Sprintf(format, args...)})
}

// count tells whether something was added between two calls.
func (p *problems) count() int { return len(p.list) + p.more }

// err is nil where nothing was wrong.
func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	slices.SortStableFunc(p.list, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	if p.more > 0 {
		return append(p.list, Error{File: p.file, Msg: fmt.Sprintf(
			"%d more problems are not shown; correct these first", p.more)})
	}
	return p.list
}
