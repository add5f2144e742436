package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxDepth is far above any shape that is read here, and far below what would
// cost stack.
const maxDepth = 64

var errDepth = errors.New("nested deeper than 64 levels")

// jsonReader makes the nodes that YAML would make of a JSON text. JSON is not
// read as YAML because YAML 1.1 knows neither \/ nor surrogate pairs, which
// common writers of JSON use.
type jsonReader struct {
	dec       *json.Decoder
	data      []byte
	at        int // offset up to which lines are counted
	line, col int // of the byte at offset at, from 1
}

func (d *decoder) jsonTree(data []byte) *yaml.Node {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if len(bytes.TrimSpace(data)) == 0 {
		return d.empty()
	}
	r := &jsonReader{dec: json.NewDecoder(bytes.NewReader(data)), data: data, line: 1, col: 1}
	r.dec.UseNumber()
	root, err := r.node(0)
	if err == nil && !utf8.Valid(data) {
		err = errors.New("the text is not UTF-8")
	}
	if err != nil {
		r.seek(max(r.at, r.offset(err)))
		d.add(r.line, r.col, "", "this is not JSON: %s; "+
			"look at quotes, commas and brackets here and above",
			clip(strings.TrimPrefix(err.Error(), "json: ")))
		return nil
	}
	if r.skip(); r.at < len(data) {
		d.add(r.line, r.col, "", "more text follows the document; keep one in a file")
		return nil
	}
	return root
}

// offset is where the decoder stood at an error.
func (r *jsonReader) offset(err error) int {
	if bad := new(json.SyntaxError); errors.As(err, &bad) && bad.Offset > 0 {
		return min(int(bad.Offset)-1, len(r.data))
	}
	return min(int(r.dec.InputOffset()), len(r.data))
}

// seek counts lines and characters up to an offset.
func (r *jsonReader) seek(to int) {
	for ; r.at < to; r.at++ {
		switch b := r.data[r.at]; {
		case b == '\n':
			r.line, r.col = r.line+1, 1
		case utf8.RuneStart(b):
			r.col++
		}
	}
}

// skip goes to the start of the next token.
func (r *jsonReader) skip() {
	to := int(r.dec.InputOffset())
	for to < len(r.data) && bytes.IndexByte([]byte(" \t\r\n,:"), r.data[to]) >= 0 {
		to++
	}
	r.seek(to)
}

// node reads one value; a closing bracket comes back as nil.
func (r *jsonReader) node(depth int) (*yaml.Node, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	r.skip()
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: r.line, Column: r.col}
	tok, err := r.dec.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	switch t := tok.(type) {
	case json.Delim:
		return r.composite(n, t, depth)
	case string:
		n.Tag, n.Value = "!!str", t
	case json.Number:
		n.Tag, n.Value = "!!float", t.String()
		if !strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!int"
		}
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(t)
	default:
		n.Tag, n.Value = "!!null", "null"
	}
	return n, nil
}

func (r *jsonReader) composite(n *yaml.Node, open json.Delim, depth int) (*yaml.Node, error) {
	switch open {
	case '{':
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
	case '[':
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
	default:
		return nil, nil
	}
	for {
		c, err := r.node(depth + 1)
		if c == nil || err != nil {
			return n, err
		}
		n.Content = append(n.Content, c)
	}
}
