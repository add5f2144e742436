package planner

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/scheduler"
	"github.com/crawld/crawld/internal/visit"
)

// Record is all that is believed of one sensor and survives a restart. It is
// stored with each outcome, in the same transaction.
type Record struct {
	URI         string        `json:"uri"`                   // that all this was learned of
	Since       time.Time     `json:"since"`                 // joined the fleet
	Source      time.Time     `json:"source,omitzero"`       // start of the last successful crawl
	Rate        Rate          `json:"rate"`                  // posterior of lambda
	Planned     float64       `json:"planned_rate"`          // the rate that its plan was made with
	Range       time.Time     `json:"range,omitzero"`        // start, as it was, of the range that Used and Instants belong to
	Used        int           `json:"used,omitempty"`        // attempts in that range, against gamma
	Kinds       kindCounts    `json:"kinds"`                 // the same by visit.Kind
	Version     uint64        `json:"version,omitempty"`     // of the plan that Instants belong to
	Instants    []time.Time   `json:"instants,omitempty"`    // crawls still planned in that range
	Next        time.Time     `json:"next,omitzero"`         // instant of its next visit
	Retry       bool          `json:"retry,omitempty"`       // the next of them takes the place of a failed one
	Mult        int64         `json:"mult,omitempty"`        // price multiplier m_i, odd
	Lose        float64       `json:"lose,omitempty"`        // marginal value of its last crawl
	Gain        float64       `json:"gain,omitempty"`        // marginal value of one more
	Gap         float64       `json:"gap,omitempty"`         // expected crawl gap, ticks
	ETag        []byte        `json:"etag,omitempty"`        // of the stored version
	Known       string        `json:"known,omitempty"`       // hash of the stored version
	Visits      int           `json:"visits,omitempty"`      // attempts ever; every 24th is a full fetch
	Failures    int           `json:"failures,omitempty"`    // of them in a row without success
	Last        visit.Result  `json:"last"`                  // result of the last attempt
	LastReason  string        `json:"last_reason,omitempty"` // why, if it was no success
	LastAttempt time.Time     `json:"last_attempt,omitzero"` // start of the last attempt
	NotBefore   time.Time     `json:"not_before,omitzero"`   // the sensor asked for rest (5.03, 4.29)
	Tried       float64       `json:"tried,omitempty"`       // planned attempts lately, see yield
	Lost        float64       `json:"lost,omitempty"`        // of them without success
	Margins     Margins       `json:"margins,omitempty"`     // what visits near window ends have shown
	Guard       time.Duration `json:"guard,omitempty"`       // learned from them
	PlanGuard   time.Duration `json:"plan_guard,omitempty"`  // that Instants were planned with
	Collected   time.Duration `json:"collected,omitempty"`   // awake time per crawl, a running mean
	Contacts    []time.Time   `json:"contacts,omitempty"`    // newest proofs of awake, at most maxContacts
	Mid         bool          `json:"mid,omitempty"`         // next visit: confirmable at mid-window
	Silent      int           `json:"silent,omitempty"`      // unanswered mid-window visits in a row
	SilentAt    time.Time     `json:"silent_at,omitzero"`    // the window (always on: visit) of the last of them
	Unreachable bool          `json:"unreachable,omitempty"`
	Tracker     *dpt.Tracker  `json:"tracker,omitempty"`
	Search      *dpt.Search   `json:"search,omitempty"`
	Polling     fleet.Polling `json:"polling,omitzero"`  // its own, that these go by
	Learner     *dpt.Learner  `json:"learner,omitempty"` // of a sensor that hides its sleep plan
	Duty        float64       `json:"duty,omitempty"`    // awake share of Rate's exposure; 0: as listed
	Fresh       time.Time     `json:"fresh,omitzero"`    // when it last had something new
	Broke       time.Time     `json:"broke,omitzero"`    // theta is spent until then for its plan's upkeep and its group
	// Completed says when it completed the condition of a group, by the group's id.
	Completed map[string]time.Time `json:"completed,omitempty"`
}

// kindCounts are attempts by visit.Kind.
type kindCounts [6]int

// maxContacts bounds Record.Contacts: enough to see by eye what a contradicted
// sleep plan should have been.
const maxContacts = 8

// Encode is the opaque form that the repository keeps.
func (r *Record) Encode() []byte { return encodeJSON(r) }

func encodeJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil { // no field of a record has a value that cannot be written
		panic(fmt.Sprintf("planner: encode %T: %v", v, err))
	}
	return b
}

// clone is deep where Observe writes in place.
func (r *Record) clone() *Record {
	c := *r
	c.Instants = slices.Clone(r.Instants)
	c.Contacts = slices.Clone(r.Contacts)
	c.Rate = r.Rate.clone()
	if r.Tracker != nil {
		c.Tracker = r.Tracker.Clone()
	}
	if r.Search != nil {
		c.Search = r.Search.Clone()
	}
	if r.Learner != nil {
		c.Learner = r.Learner.Clone()
	}
	return &c
}

// maxRest bounds what a sensor may ask for by Retry-After.
const maxRest = 24 * time.Hour

// notAfter pulls back what a clock that was set back has left in the future: a
// sensor would not be asked until then.
func (r *Record) notAfter(now time.Time) {
	if r.LastAttempt.After(now) { // their instants mean nothing any more
		r.Tracker, r.Search, r.Learner = nil, nil, nil
	}
	for _, t := range []*time.Time{&r.Source, &r.LastAttempt, &r.Since, &r.Fresh} {
		if t.After(now) {
			*t = now
		}
	}
	for id, at := range r.Completed {
		if at.After(now) {
			r.complete(id, now)
		}
	}
	if r.NotBefore.After(now.Add(maxRest)) {
		r.NotBefore = now
	}
}

// FleetRecord is what belongs to the range and not to one sensor.
type FleetRecord struct {
	Range     time.Time         `json:"range"`         // start of the running range
	Version   uint64            `json:"version"`       // of the running plan
	Price     float64           `json:"price"`         // mu, weighted latency seconds per crawl
	Theta     int               `json:"theta"`         // budget of the range
	Reserved  int               `json:"reserved"`      // of it, kept for polls
	Retries   int               `json:"retries"`       // of it, left for retries
	End       scheduler.EndRule `json:"end_rule"`      // of the plan
	Stretch   float64           `json:"stretch"`       // by which all polled gaps are longer
	Extra     int64             `json:"extra"`         // look-ahead of the plan, ticks
	Planned   int               `json:"planned"`       // crawls of the plan as adopted at first
	Expected  float64           `json:"expected"`      // weighted latency seconds of the plan
	Wait      float64           `json:"wait"`          // the same without weights
	Events    float64           `json:"events"`        // events expected in the range
	Spilled   int               `json:"spilled"`       // crawls that the limit on starts per second cost
	SpillLoss float64           `json:"spill_loss"`    // weighted latency seconds that it cost
	Mended    int               `json:"mended"`        // solves of the rest of the range
	Attempts  float64           `json:"attempts"`      // planned attempts lately, halved every range
	Failed    float64           `json:"failed"`        // of them failed
	Share     float64           `json:"failure_share"` // of planned attempts, at the range's start
}

// failureShare is the share of planned attempts that fail, as learned lately.
func (r FleetRecord) failureShare() float64 { return r.Failed / (r.Attempts + retryPrior) }

// sane tells whether a stored record can be one of ours.
func (r FleetRecord) sane() bool {
	return r.Price >= 0 && r.Extra >= 0 && r.Extra <= scheduler.MaxTicks && r.Reserved >= 0 &&
		r.Retries >= 0 && r.Share >= 0 && r.Share <= 1 && r.Attempts >= 0 && r.Failed >= 0 && r.Stretch >= 0
}

// jumps are those of the wall clock since the running range began.
type jumps struct {
	Count int           `json:"count"`
	By    time.Duration `json:"by"` // all of them together
}

// savedFleet is a FleetRecord as it is stored.
type savedFleet struct {
	FleetRecord
	Polling dpt.Params `json:"polling"`           // that the trackers were made with
	Margins Margins    `json:"margins,omitempty"` // of all sensors together
	Jumps   jumps      `json:"jumps,omitzero"`    // in the range
}

// Saved is what a restart finds. All parts may be empty.
type Saved struct {
	Fleet   []byte            // a FleetRecord
	Plan    []byte            // what Plan.Encode wrote for the running range
	Sensors map[string][]byte // sensor id to Record
}

// CheckRecord tells whether New would take a saved record.
func CheckRecord(data []byte) error {
	_, err := decodeRecord(data)
	return err
}

// decodeRecord reads a record. Values that would break an invariant are refused, so
// that a damaged store costs one sensor its history and not the daemon its life.
func decodeRecord(data []byte) (*Record, error) {
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("planner: decode record: %w", err)
	}
	if r.Used < 0 || slices.Min(r.Kinds[:]) < 0 || r.Since.IsZero() || r.Gap < 0 ||
		r.Gap > scheduler.MaxTicks || !(r.Duty >= 0 && r.Duty <= 1) ||
		!(r.Tried >= r.Lost) || !(r.Lost >= 0) ||
		r.Guard < 0 || r.Collected < 0 || !r.Margins.sane() || !(r.Lose >= 0) || !(r.Gain >= 0) || !slices.IsSortedFunc(r.Instants, time.Time.Compare) {
		return nil, fmt.Errorf("planner: decode record: inconsistent values")
	}
	return &r, nil
}
