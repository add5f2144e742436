package main

import (
	"strconv"

	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"
)

// journalEncoder puts the syslog priority that journald reads (sd-daemon(3))
// before each line.
type journalEncoder struct{ zapcore.Encoder }

// Clone is zapcore.Encoder's.
func (e journalEncoder) Clone() zapcore.Encoder { return journalEncoder{e.Encoder.Clone()} }

// EncodeEntry is zapcore.Encoder's.
func (e journalEncoder) EncodeEntry(
	entry zapcore.Entry, fields []zapcore.Field,
) (*buffer.Buffer, error) {
	line, err := e.Encoder.EncodeEntry(entry, fields)
	if err != nil {
		return nil, err
	}
	out := buffer.NewPool().Get()
	out.AppendString("<" + strconv.Itoa(priority(entry.Level)) + ">")
	out.AppendString(line.String())
	line.Free()
	return out, nil
}

func priority(l zapcore.Level) int {
	switch {
	case l >= zapcore.DPanicLevel:
		return 2
	case l == zapcore.ErrorLevel:
		return 3
	case l == zapcore.WarnLevel:
		return 4
	case l == zapcore.InfoLevel:
		return 6
	}
	return 7
}
