package repository

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"
)

// maxSensor bounds a sensor id in bytes, as the fleet does. Escaped it stays
// far below bbolt's key limit of 32 KiB.
const maxSensor = 512

const (
	timeLen = 8  // bytes of an instant in a key
	hashLen = 16 // bytes of a hash in a key
)

// sensorKey is the first part of every key about a sensor.
func sensorKey(id string) []byte {
	return appendEscaped(make([]byte, 0, len(id)+2+timeLen), id)
}

// appendEscaped appends an id so that none is a prefix of another one.
func appendEscaped(key []byte, id string) []byte {
	for i := range len(id) {
		key = append(key, id[i])
		if id[i] == 0 {
			key = append(key, 0xFF)
		}
	}
	return append(key, 0, 1)
}

// cutSensor splits a key into the sensor's id and what follows it.
func cutSensor(key []byte) (id string, rest []byte, err error) {
	var raw []byte
	for rest = key; ; {
		i := bytes.IndexByte(rest, 0)
		if i < 0 || i+1 == len(rest) {
			break
		}
		raw = append(raw, rest[:i]...)
		switch rest[i+1] {
		case 0xFF:
			raw, rest = append(raw, 0), rest[i+2:]
			continue
		case 1:
			return string(raw), rest[i+2:], nil
		}
		break
	}
	return "", nil, fmt.Errorf("key %x: no sensor id in it: %w", key, ErrCorrupt)
}

// cutSensorTime splits a key of versions or visits.
func cutSensorTime(key []byte) (id string, at time.Time, err error) {
	id, rest, err := cutSensor(key)
	if err != nil {
		return "", time.Time{}, err
	}
	if len(rest) != timeLen {
		return "", time.Time{}, fmt.Errorf("key %x: want %d bytes of time behind the sensor, got %d: %w",
			key, timeLen, len(rest), ErrCorrupt)
	}
	return id, keyTime(rest), nil
}

// appendTime appends an instant so that later ones sort first.
func appendTime(key []byte, us int64) []byte {
	return binary.BigEndian.AppendUint64(key, ^(uint64(us) ^ 1<<63))
}

// keyMicros reads what appendTime wrote. The slice has timeLen bytes.
func keyMicros(b []byte) int64 {
	return int64(^binary.BigEndian.Uint64(b) ^ 1<<63)
}

func keyTime(b []byte) time.Time { return time.UnixMicro(keyMicros(b)).UTC() }

// rowKey is the key of a sensor's row at an instant.
func rowKey(sensor []byte, us int64) []byte {
	return appendTime(append(make([]byte, 0, len(sensor)+timeLen), sensor...), us)
}

// olderThan is where the sensor's rows from before an instant begin; a zero
// instant means all of them.
func olderThan(sensor []byte, before time.Time) []byte {
	if before.IsZero() {
		return sensor
	}
	return rowKey(sensor, before.UnixMicro()-1)
}

// parseHash reads a hex SHA-256.
func parseHash(s string) (sum [32]byte, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(sum) {
		return sum, fmt.Errorf("hash %q: want the 64 hex digits of a SHA-256", s)
	}
	return [32]byte(b), nil
}
