package config

import (
	"bytes"
	"io"
	"path/filepath"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// tree reads the one document of a file. It returns nil, and has added the
// problem, where there is none, more than one, or no syntax.
func (d *decoder) tree(data []byte) *yaml.Node {
	if strings.EqualFold(filepath.Ext(d.file), ".json") {
		return d.jsonTree(data)
	}
	src := &lineReader{rest: data}
	dec := yaml.NewDecoder(src)
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err == io.EOF {
		return d.empty()
	} else if err != nil {
		d.syntax(data, src.lines, err)
		return nil
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		d.add(second.Line, second.Column, "", "a second document starts here; keep one in a file")
		return nil
	case err != io.EOF:
		d.syntax(data, src.lines, err)
		return nil
	}
	// The zero tag of a missing value resolves to !!null.
	if root := doc.Content[0]; root.Kind != yaml.ScalarNode || root.ShortTag() != "!!null" {
		return root
	}
	return d.empty()
}

func (d *decoder) empty() *yaml.Node {
	d.add(1, 1, "", "the file is empty; write at least one key")
	return nil
}

// syntax adds what the YAML library says, at the line where it stood.
func (d *decoder) syntax(data []byte, line int, err error) {
	msg := bare(err)
	if strings.HasPrefix(msg, "unknown anchor") {
		d.add(max(line, 1), 0, "", "aliases are not supported (%s); write the value out", clip(msg))
		return
	}
	d.add(firstFailing(data, max(line, 1), msg), 0, "", "this is not YAML: %s; "+
		"look at quotes, brackets and indentation (spaces only) here and above", clip(msg))
}

// bare cuts the line that the library names: it is that of the enclosing block,
// and counted from 0 for some errors. The lineReader knows better.
func bare(err error) string {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	if after, ok := strings.CutPrefix(msg, "line "); ok {
		if _, rest, ok := strings.Cut(after, ": "); ok {
			return rest
		}
	}
	return msg
}

// firstFailing is the shortest prefix, in lines, that fails with the same
// message. For the errors named it is a better place than where the parser
// stood: the start of a quote without an end, the line out of indentation
// instead of the next one, to which the parser looks for comments. Large files
// are not worth the parsing.
func firstFailing(data []byte, line int, msg string) int {
	narrow := strings.Contains(msg, "end of stream") ||
		strings.HasSuffix(msg, "expected key") || strings.HasSuffix(msg, "'-' indicator")
	if !narrow || len(data) > 1<<20 {
		return line
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	return 1 + sort.Search(min(line, len(lines))-1, func(i int) bool {
		dec := yaml.NewDecoder(bytes.NewReader(bytes.Join(lines[:i+1], nil)))
		for {
			switch err := dec.Decode(new(yaml.Node)); {
			case err == io.EOF:
				return false
			case err != nil:
				return bare(err) == msg
			}
		}
	})
}

// lineReader hands out at most one line at a time. The YAML scanner looks no
// further than it must, so at an error the lines handed out tell where it is.
type lineReader struct {
	rest  []byte
	lines int
	inner bool // the line handed out last is not at its end
}

func (r *lineReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := len(r.rest)
	if i := bytes.IndexByte(r.rest, '\n'); i >= 0 {
		n = i + 1
	}
	n = copy(p, r.rest[:n])
	if !r.inner {
		r.lines++
	}
	r.inner = r.rest[n-1] != '\n'
	r.rest = r.rest[n:]
	return n, nil
}
