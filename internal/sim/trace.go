package sim

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of a trace, so that a wrong or hostile file ends with an error.
const (
	MaxTraceBytes        = 64 << 20 // of text, after decompression
	MaxTraceLine         = 64 << 10 // bytes
	MaxTracePublications = 2_000_000
)

// ErrTraceSize is in the error for a trace beyond the bounds.
var ErrTraceSize = errors.New("trace too large")

// Trace is a recording of when a sensor published.
type Trace struct {
	Name       string
	Instants   []time.Time // ascending, no two equal
	Duplicates int         // rows with the same stamp as another, dropped
	Unordered  bool        // the rows were not ascending
	// WholeSeconds tells that all stamps were whole seconds. Instants are then the stamp
	// and a part of a second drawn from the seed: otherwise a poll on the second would
	// find each publication at once.
	WholeSeconds bool
}

// maxUnix is the end of the year 9999, Unix seconds.
const maxUnix = 253402300800

// ReadTrace reads CSV, plain or gzip, the first column of which are Unix seconds; a first
// row that does not begin with a number is a header. name is for errors, which tell line
// and column.
func ReadTrace(name string, r io.Reader, seed uint64) (Trace, error) {
	text, err := decompressed(r)
	if err != nil {
		return Trace{}, fmt.Errorf("trace %s: %w", name, err)
	}
	stamps, err := readStamps(text)
	if err != nil {
		return Trace{}, fmt.Errorf("trace %s: %w", name, err)
	}
	t := Trace{Name: name, Unordered: !slices.IsSorted(stamps), WholeSeconds: true}
	slices.Sort(stamps)
	all := len(stamps)
	stamps = slices.Compact(stamps)
	t.Duplicates = all - len(stamps)
	for _, s := range stamps {
		t.WholeSeconds = t.WholeSeconds && s == math.Trunc(s)
	}
	rng := rand.New(rand.NewPCG(seed, 0x74726163652e0000))
	t.Instants = make([]time.Time, len(stamps))
	for i, s := range stamps {
		whole := math.Floor(s)
		part := s - whole
		if t.WholeSeconds {
			part = rng.Float64()
		}
		t.Instants[i] = time.Unix(int64(whole), int64(part*1e9)).UTC()
	}
	return t, nil
}

// decompressed tells gzip by its first two bytes and bounds the text.
func decompressed(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	if head, _ := b.Peek(2); string(head) == "\x1f\x8b" {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, err
		}
		b = bufio.NewReader(&bounded{r: z, left: MaxTraceBytes})
	} else {
		b = bufio.NewReader(&bounded{r: b, left: MaxTraceBytes})
	}
	if mark, _ := b.Peek(3); string(mark) == "\xef\xbb\xbf" { // byte order mark
		_, _ = b.Discard(3)
	}
	return b, nil
}

// bounded reads left bytes, in lines of bounded length, and then fails, where
// io.LimitedReader would seem to end.
type bounded struct {
	r    io.Reader
	left int
	line int // bytes since the last line break
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		if n, err := b.r.Read(make([]byte, 1)); n == 0 {
			return 0, err
		}
		return 0, fmt.Errorf("%w: more than %d bytes", ErrTraceSize, MaxTraceBytes)
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	for rest := p[:n]; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			b.line += len(rest)
			rest = nil
		} else {
			b.line += end
			rest = rest[end+1:]
		}
		if b.line > MaxTraceLine {
			return 0, fmt.Errorf("%w: a line of more than %d bytes", ErrTraceSize, MaxTraceLine)
		}
		if end >= 0 {
			b.line = 0
		}
	}
	return n, err
}

func readStamps(r io.Reader) ([]float64, error) {
	rows := csv.NewReader(r)
	rows.FieldsPerRecord = -1
	rows.ReuseRecord = true
	var stamps []float64
	for first := true; ; first = false {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err // a csv.ParseError tells line and column
		}
		stamp, err := parseStamp(row[0])
		if err != nil && first && errors.Is(err, strconv.ErrSyntax) {
			continue
		}
		if err != nil {
			line, column := rows.FieldPos(0)
			return nil, fmt.Errorf("line %d, column %d: %w", line, column, err)
		}
		if len(stamps) == MaxTracePublications {
			line, _ := rows.FieldPos(0)
			return nil, fmt.Errorf("line %d: %w: more than %d publications", line, ErrTraceSize,
				MaxTracePublications)
		}
		stamps = append(stamps, stamp)
	}
	if len(stamps) == 0 {
		return nil, errors.New("no publications")
	}
	return stamps, nil
}

func parseStamp(field string) (float64, error) {
	stamp, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
	if err != nil {
		return 0, fmt.Errorf("unix seconds %.40q: %w", field, errors.Unwrap(err))
	}
	if !(stamp >= 0 && stamp < maxUnix) {
		return 0, fmt.Errorf("unix seconds %.40q: must lie in 0 .. %d", field, int64(maxUnix))
	}
	return stamp, nil
}
