package coapclient

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/absmach/senml"
	"github.com/fxamacker/cbor/v2"
	"github.com/plgd-dev/go-coap/v3/message"
)

// relativeBelow separates times relative to now from seconds since 1970, RFC
// 8428 section 4.5.3.
const relativeBelow = 1 << 28

// latestSecond is the end of the year 9999, past which a time cannot be written
// down as RFC 3339.
const latestSecond = 253402300799

// publishedAt returns the distinct times of a SenML pack in ascending order,
// relative ones counted from now. It returns nil if the pack does not parse or
// has a field that must be understood and is not (RFC 8428 section 4.4).
func publishedAt(body []byte, format int, now time.Time) []time.Time {
	encoding := senml.JSON
	labels := jsonLabels
	if format == int(message.AppSenmlCbor) {
		encoding, labels = senml.CBOR, cborLabels
	}
	names, err := labels(body)
	if err != nil || slices.ContainsFunc(names, mustUnderstand) {
		return nil
	}
	pack, err := senml.Decode(body, encoding)
	if err != nil {
		return nil
	}
	if pack, err = senml.Normalize(pack); err != nil {
		return nil
	}
	times := make([]time.Time, 0, len(pack.Records))
	for _, r := range pack.Records {
		if t, ok := resolveTime(r.Time, now); ok {
			times = append(times, t)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return slices.CompactFunc(times, time.Time.Equal)
}

func resolveTime(seconds float64, now time.Time) (time.Time, bool) {
	if math.IsNaN(seconds) || seconds < -relativeBelow || seconds > latestSecond {
		return time.Time{}, false
	}
	whole, fraction := math.Modf(seconds)
	if seconds < relativeBelow {
		return now.Add(time.Duration(seconds * float64(time.Second))).Round(0).UTC(), true
	}
	// A float64 holds today's seconds to a quarter of a microsecond.
	return time.Unix(int64(whole), int64(fraction*1e9)).Round(time.Microsecond).UTC(), true
}

func mustUnderstand(label string) bool { return strings.HasSuffix(label, "_") }

func jsonLabels(body []byte) ([]string, error) {
	var records []map[string]json.RawMessage
	if err := json.Unmarshal(body, &records); err != nil {
		return nil, err
	}
	var names []string
	for _, r := range records {
		for name := range r {
			names = append(names, name)
		}
	}
	return names, nil
}

func cborLabels(body []byte) ([]string, error) {
	var records []map[any]cbor.RawMessage
	if err := cbor.Unmarshal(body, &records); err != nil {
		return nil, err
	}
	var names []string
	for _, r := range records {
		for label := range r {
			if name, ok := label.(string); ok {
				names = append(names, name)
			}
		}
	}
	return names, nil
}
