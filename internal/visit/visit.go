// Package visit holds the words that planner, crawler, exchange layer,
// repository and API share: what a crawl is (Visit) and what became of it
// (Outcome). Both are plain values; nothing here decides or does anything.
package visit

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Kind says who asked for a visit.
type Kind uint8

// Every kind but Manual counts against the budget (theta) and the sensor's cap
// (gamma); a manual visit is counted and shown beside them.
const (
	Planned   Kind = iota // an instant of the running crawl plan
	Retry                 // takes the place of a crawl that failed
	Poll                  // a tracker of a sensor without sleep plan asked
	Probe                 // looks for a sensor that has not answered (yet)
	Announced             // the sensor said that it is awake
	Manual                // an operator asked
	numKinds
)

var kindNames = [numKinds]string{"planned", "retry", "poll", "probe", "announced", "manual"}

// Kinds lists every Kind in order, for metrics that must exist from the start.
func Kinds() []Kind { return []Kind{Planned, Retry, Poll, Probe, Announced, Manual} }

func (k Kind) String() string { return name(kindNames[:], int(k)) }

// MarshalText writes the name the API uses, such as "planned".
func (k Kind) MarshalText() ([]byte, error) { return text(kindNames[:], int(k)) }

// UnmarshalText accepts the names that MarshalText writes.
func (k *Kind) UnmarshalText(b []byte) error {
	i, err := find(kindNames[:], string(b))
	*k = Kind(i)
	return err
}

// Result is what became of a visit.
type Result uint8

// Only Described and Unchanged move the source, that is the instant up to which
// a sensor's events are known.
const (
	Described Result = iota // a complete new body, whatever its text
	Unchanged               // 2.03 Valid, or a body with the stored hash
	Asleep                  // nothing authentic came back
	Refused                 // RST, 4.xx or 5.xx: an answer, but no description
	Failed                  // broken transfer, authentication, a limit, or not stored
	Missed                  // the daemon was late or down; the sensor was not asked
	numResults
)

var resultNames = [numResults]string{"described", "unchanged", "asleep", "refused", "failed", "missed"}

// Results lists every Result in order, for metrics that must exist from the start.
func Results() []Result { return []Result{Described, Unchanged, Asleep, Refused, Failed, Missed} }

func (r Result) String() string { return name(resultNames[:], int(r)) }

// Success reports whether the visit moved the source.
func (r Result) Success() bool { return r == Described || r == Unchanged }

// MarshalText writes the name the API uses, such as "described".
func (r Result) MarshalText() ([]byte, error) { return text(resultNames[:], int(r)) }

// UnmarshalText accepts the names that MarshalText writes.
func (r *Result) UnmarshalText(b []byte) error {
	i, err := find(resultNames[:], string(b))
	*r = Result(i)
	return err
}

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("invalid(%d)", i)
}

func text(names []string, i int) ([]byte, error) {
	if i >= len(names) {
		return nil, fmt.Errorf("visit: no name has number %d", i)
	}
	return []byte(names[i]), nil
}

func find(names []string, s string) (int, error) {
	if i := slices.Index(names, s); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("visit: unknown name %q", s)
}

// Visit is one access to one sensor, as the planner wants it done. The planner
// fills it from its own record; the exchange layer never sees the store.
type Visit struct {
	Sensor   string    `json:"sensor"`            // fleet.Sensor.ID
	URI      string    `json:"uri,omitempty"`     // what is fetched
	At       time.Time `json:"at"`                // the planned instant
	Deadline time.Time `json:"deadline"`          // the exchange ends by then: window end, at most 93 s after At
	Kind     Kind      `json:"kind"`              // who asked
	Why      string    `json:"why,omitempty"`     // the binding thing and its number
	Value    float64   `json:"value,omitempty"`   // marginal value, weighted latency seconds
	ETag     []byte    `json:"etag,omitempty"`    // of the stored version; nil = none known
	Known    string    `json:"known,omitempty"`   // hex SHA-256 of the stored body; "" = none stored
	Full     bool      `json:"full,omitempty"`    // fetch the body without an ETag
	NON      bool      `json:"non,omitempty"`     // send non-confirmable, no retransmission
	Retrans  int       `json:"retrans,omitempty"` // MAX_RETRANSMIT of every request of this visit
	// AckTimeout is ACK_TIMEOUT of this sensor; 0 = RFC 7252's 2 s.
	AckTimeout time.Duration `json:"ack_timeout,omitempty"`
	// Credential is the id of what a secure URI's sensor is met with. It is a name, no secret.
	Credential string `json:"credential,omitempty"`
}

// Outcome is what became of a visit. A zero value in an optional field means
// that the field does not apply.
type Outcome struct {
	Visit
	Result  Result `json:"outcome"`
	Contact bool   `json:"contact"` // did anything authentic come back
	Code    string `json:"code,omitempty"`

	Body        []byte        `json:"-"`                        // complete body of a 2.05, as served
	Hash        string        `json:"hash,omitempty"`           // hex SHA-256 of Body, or of the version that 2.03 confirmed
	Format      int           `json:"content_format,omitempty"` // Content-Format number, -1 = none given
	NewETag     []byte        `json:"new_etag,omitempty"`       // ETag that came with the answer
	MaxAge      time.Duration `json:"max_age,omitempty"`        // of the answer; HasMaxAge tells an explicit one
	HasMaxAge   bool          `json:"has_max_age,omitempty"`    // Max-Age was in the answer
	RetryAfter  time.Duration `json:"retry_after,omitempty"`    // 5.03 and 4.29: no crawl before Ended + this
	Verdict     string        `json:"verdict,omitempty"`        // link format: valid, recovered, invalid; "" = other format
	Links       int           `json:"links,omitempty"`          // links that were read
	PublishedAt []time.Time   `json:"published_at,omitempty"`   // SenML times, ascending

	DatagramsSent     int           `json:"datagrams_sent"`
	DatagramsReceived int           `json:"datagrams_received"`
	BytesSent         int           `json:"bytes_sent"`
	BytesReceived     int           `json:"bytes_received"`
	Retransmissions   int           `json:"retransmissions"`
	Blocks            int           `json:"blocks"`
	RTT               time.Duration `json:"rtt,omitempty"` // first request to its first answer
	Started           time.Time     `json:"started"`
	Ended             time.Time     `json:"ended"`
	Reason            string        `json:"reason,omitempty"` // short stable word for metrics, such as "timeout" or "rst"
	Error             string        `json:"error,omitempty"`  // for people; "" on success
	Transcript        []Line        `json:"transcript,omitempty"`
}

// Took is how long the exchange ran.
func (o Outcome) Took() time.Duration { return o.Ended.Sub(o.Started) }

// Lateness is how long after its planned instant the visit was started.
func (o Outcome) Lateness() time.Duration { return o.Started.Sub(o.At) }

// Encode is the record kept in the repository's visits bucket. The body is not
// part of it: that is stored once, by its hash.
func (o Outcome) Encode() ([]byte, error) { return json.Marshal(o) }

// Decode reads what Encode wrote.
func Decode(record []byte) (Outcome, error) {
	var o Outcome
	if err := json.Unmarshal(record, &o); err != nil {
		return Outcome{}, fmt.Errorf("visit: decode outcome: %w", err)
	}
	return o, nil
}
