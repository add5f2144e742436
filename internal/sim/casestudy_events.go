package sim

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds on an event file. They keep a hostile or mistaken file from taking all
// memory or from being simulated for centuries.
const (
	maxEventBytes   = 16 << 20 // uncompressed
	maxEvents       = 200_000
	maxStreams      = 1000
	maxStreamName   = 200
	maxStreamLength = 20 * 366 * 24 * time.Hour
	lastSecond      = 253402300799 // of the year 9999
)

// Stream is what one sensor captured.
type Stream struct {
	Name   string
	Events []time.Time // ascending, in UTC
}

// EventsError is what is wrong with an event file, and where.
type EventsError struct {
	File         string
	Line, Column int // from 1, the column in bytes
	Msg          string
}

// Error is of the form file:line:column: what is wrong.
func (e *EventsError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Msg)
}

// eventColumns are the columns of an event file, the last one being optional.
var eventColumns = []string{"stream", "t_event", "value"}

// eventReader reads an event file record by record.
type eventReader struct {
	file    string
	csv     *csv.Reader
	columns []string // of the header
	streams []Stream
	index   map[string]int
	events  int
}

// ReadEvents reads an event file, CSV or gzipped CSV, called name in errors: a
// header with the columns stream, t_event and, optionally, value, then one event
// a line. t_event is in Unix seconds, from 1970 to the year 9999, and ascends
// within a stream; value must be a number or empty and is not used. The streams come in
// the order of their first events. An error is an *EventsError.
func ReadEvents(name string, in io.Reader) ([]Stream, error) {
	e := &eventReader{file: name, index: map[string]int{}}
	plain, err := gunzipped(in)
	if err != nil {
		return nil, e.fault(1, 1, "%v", err)
	}
	e.csv = csv.NewReader(&boundedReader{plain, maxEventBytes})
	e.csv.ReuseRecord = true
	if err := e.header(); err != nil {
		return nil, err
	}
	for {
		record, err := e.csv.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, e.broken(err)
		}
		if err := e.record(record); err != nil {
			return nil, err
		}
	}
	if e.events == 0 {
		return nil, e.fault(2, 1, "there is no event after the header")
	}
	slices.SortStableFunc(e.streams, func(a, b Stream) int { return a.Events[0].Compare(b.Events[0]) })
	return e.streams, nil
}

// gunzipped undoes gzip where the input begins like it.
func gunzipped(in io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(in)
	if head, err := buffered.Peek(2); err != nil || head[0] != 0x1f || head[1] != 0x8b {
		return buffered, nil // what is wrong with a file this short the parser says
	}
	return gzip.NewReader(buffered)
}

// errTooLong ends the reading of a file over maxEventBytes.
var errTooLong = fmt.Errorf("the file has more than %d MiB", maxEventBytes>>20)

// boundedReader fails, where io.LimitReader would end as if there were no more.
type boundedReader struct {
	r    io.Reader
	left int
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func (e *eventReader) fault(line, column int, format string, args ...any) error {
	return &EventsError{e.file, line, column, fmt.Sprintf(format, args...)}
}

// field is a fault of the i-th field of the record that was read last.
func (e *eventReader) field(i int, format string, args ...any) error {
	line, column := e.csv.FieldPos(i)
	return e.fault(line, column, e.columns[i]+": "+format, args...)
}

// broken is what the CSV or gzip reader complained of. Where gzip fails the line
// is not known: the CSV reader reads ahead.
func (e *eventReader) broken(err error) error {
	var parse *csv.ParseError
	if !errors.As(err, &parse) {
		return e.fault(1, 1, "cannot be read: %v", err)
	}
	if errors.Is(err, csv.ErrFieldCount) {
		return e.fault(parse.Line, 1, "expected %d fields as in the header: %s", len(e.columns),
			strings.Join(e.columns, ","))
	}
	return e.fault(parse.Line, max(parse.Column, 1), "%v", parse.Err)
}

func (e *eventReader) header() error {
	names, err := e.csv.Read()
	if err == io.EOF {
		return e.fault(1, 1, "the file is empty; expected the header stream,t_event or "+
			"stream,t_event,value")
	}
	if err != nil {
		return e.broken(err)
	}
	e.columns = slices.Clone(names)
	for i, name := range e.columns {
		line, column := e.csv.FieldPos(i)
		switch {
		case !slices.Contains(eventColumns, name):
			return e.fault(line, column, "%.40q: unknown column; known are stream, t_event and value", name)
		case slices.Index(e.columns, name) != i:
			return e.fault(line, column, "%s: the column is there twice", name)
		}
	}
	for _, name := range eventColumns[:2] {
		if !slices.Contains(e.columns, name) {
			return e.fault(1, 1, "%s: the column is missing", name)
		}
	}
	return nil
}

// record takes one event.
func (e *eventReader) record(record []string) error {
	var name string
	var at time.Time
	var err error
	when := 0
	for i, text := range record {
		switch e.columns[i] {
		case "stream":
			name, err = e.name(i, text)
		case "t_event":
			when = i
			at, err = e.instant(i, text)
		case "value":
			err = e.value(i, text)
		}
		if err != nil {
			return err
		}
	}
	return e.add(name, at, when)
}

// value looks at a reading, which may be missing.
func (e *eventReader) value(i int, text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if text != "" && (err != nil || math.IsNaN(v) || math.IsInf(v, 0)) {
		return e.field(i, "%.40q is no number", text)
	}
	return nil
}

func (e *eventReader) name(i int, text string) (string, error) {
	strange := func(r rune) bool { return !unicode.IsPrint(r) }
	switch {
	case text == "":
		return "", e.field(i, "the stream has no name")
	case len(text) > maxStreamName:
		return "", e.field(i, "the name has %d bytes, at most %d are taken", len(text), maxStreamName)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, strange):
		return "", e.field(i, "%.40q: the name has characters that cannot be printed", text)
	}
	return strings.Clone(text), nil
}

// instant reads decimal seconds since 1970.
func (e *eventReader) instant(i int, text string) (time.Time, error) {
	seconds, err := strconv.ParseFloat(text, 64)
	plain := strings.Trim(text, "0123456789.+-") == "" // not NaN, not hexadecimal
	switch {
	case !plain || err != nil && !errors.Is(err, strconv.ErrRange):
		return time.Time{}, e.field(i, "%.40q is no number of Unix seconds, such as 1079031600", text)
	case err != nil || seconds < 0 || seconds > lastSecond:
		return time.Time{}, e.field(i, "%.40s lies outside of 0 .. %d Unix seconds", text, lastSecond)
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)).UTC(), nil
}

// add puts an event, whose instant is the given field, into its stream.
func (e *eventReader) add(name string, at time.Time, field int) error {
	i, known := e.index[name]
	if !known {
		if len(e.streams) == maxStreams {
			return e.field(field, "more than %d streams", maxStreams)
		}
		i = len(e.streams)
		e.index[name] = i
		e.streams = append(e.streams, Stream{Name: name})
	}
	s := &e.streams[i]
	if n := len(s.Events); n > 0 && at.Before(s.Events[n-1]) {
		return e.field(field, "the events of stream %q are not sorted: %s comes after %s", name,
			at.Format(time.RFC3339), s.Events[n-1].Format(time.RFC3339))
	} else if n > 0 && at.Sub(s.Events[0]) > maxStreamLength {
		return e.field(field, "stream %q is longer than 20 years: %s comes after %s", name,
			at.Format(time.RFC3339), s.Events[0].Format(time.RFC3339))
	}
	if e.events++; e.events > maxEvents {
		return e.field(field, "more than %d events", maxEvents)
	}
	s.Events = append(s.Events, at)
	return nil
}
