package config

import (
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/crawld/crawld/internal/fleet"
)

// What happens at the end of a time range (planner.end).
const (
	EndLookahead = "lookahead" // plan on into the next range at the last price
	EndCarry     = "carry"     // what is uncrawled at the end is carried over
	EndFixed     = "fixed"     // the last awake instant is always crawled (EasiCrawl)
)

// Where crawls may be placed (planner.candidates).
const (
	CandidatesEnds = "ends" // window ends, starts and polished interior points
	CandidatesGrid = "grid" // start + k step where awake, and the last awake instant (EasiCrawl)
)

// Which deviation DPT goes by (polling.sd), and whether publish instants in answers are
// used (polling.publish_times).
const (
	SDFolded     = "folded" // of intervals folded to one period
	SDRaw        = "raw"    // of all, as in the DPT paper
	PublishAuto  = "auto"   // where they can be trusted
	PublishTrue  = "true"
	PublishFalse = "false"
)

// What a crawl is taken to cost (planner.objective).
const (
	ObjectiveExact = "exact" // the expected latency of a Poisson process
	ObjectivePaper = "paper" // equation (5) of the EasiCrawl paper
)

// How sensors without a sleep plan are polled (polling.policy).
const (
	PolicyDPTA    = "dpt-a"   // Data Publication Tracking, looking early
	PolicyDPTN    = "dpt-n"   // at the expected instant
	PolicyDPTL    = "dpt-l"   // late
	PolicyBimodal = "bimodal" // DPT-L that knows a second, longer period
	PolicyHZ      = "hz"      // phase lock and optimal inspection
	PolicyBB      = "bb"      // bracketing, where only changes are seen
	PolicyFixed   = "fixed"   // every bootstrap interval
)

// Config is the validated content of one crawld.yaml, defaults filled in.
type Config struct {
	Path        string   // as given to Load or Parse
	SensorFiles []string // absolute paths and globs, for LoadSensors
	Data        string   // the database file; a relative path is the working directory's
	Planner     Planner
	Polling     Polling
	Groups      []Group // in the file's order; nil = none
	Publishers  []Publisher
	Readers     []Reader // nil = everybody may read
	Store       Store
	Web         Web
	Directory   Directory
	Networks    Networks
	// SensorCredentials are the file's credentials, in its order.
	SensorCredentials []SensorCredential
	Limits            Limits
	Log               Log
}

// Planner says how crawls of sensors with a sleep plan are planned.
type Planner struct {
	Range           time.Duration // T, at least 1 s and a multiple of the tick
	Tick            time.Duration // at least 1 ms; 0 = auto, see ResolvedTick
	Step            Step          // eps of the grid
	Guard           time.Duration // 0 <= Guard < Range; with GuardAuto the guard until learned
	GuardAuto       bool
	Budget          float64 // > 0, crawls per range; see Theta
	BudgetPerSensor bool    // Budget is for each sensor, else for the fleet and whole
	End             string  // EndLookahead, EndCarry or EndFixed
	Candidates      string  // CandidatesEnds or CandidatesGrid
	Objective       string  // ObjectiveExact or ObjectivePaper
	Capacity        float64 // > 0, crawls started per second
}

// Step is a number of ticks or a duration; one of the two is 0.
type Step struct {
	Ticks    int64
	Duration time.Duration // a multiple of the tick
}

// Polling says how sensors with an unknown sleep plan are polled: 0 < MinGap <= MaxGap,
// at most one of Price and PollsPerPublication.
type Polling = fleet.Polling

// Store bounds the database file.
type Store struct {
	MaxSize int // bytes; 0 = no bound, else 64 MiB or more
	Ballast int // bytes kept free for the moment when the disk is full; 0 = none
}

// Networks bounds what names may resolve to. An address listed literally is
// allowed as listed.
type Networks struct {
	Allow, Deny []netip.Prefix // masked; empty Allow = everything not denied
}

// Limits bound one visit and the visits that run at once.
type Limits struct {
	Body      int           // bytes of one description, 64 B .. 64 MiB
	Blocks    int           // blocks of one transfer (RFC 7959), 1 .. 2^20
	BlockMin  int           // bytes; the smallest block size taken: 16, 32, ... 1024
	Progress  time.Duration // a visit ends after this long without a new block, up to 5 m
	PerHost   int           // visits at once to one address
	PerSubnet int           // visits at once to one /24 (IPv4) or /64 (IPv6)
}

// Log says what is written to standard error.
type Log struct {
	Level  string // debug, info, warn or error
	Format string // auto, json or console
}

// Default is what a file with no keys would mean, but for the sensors, which
// have no default. It reads $STATE_DIRECTORY for the data file.
func Default() Config {
	return Config{
		Data: defaultData(),
		Planner: Planner{
			Range: time.Hour, Step: Step{Ticks: 1}, Guard: autoGuard, GuardAuto: true,
			Budget: 4, BudgetPerSensor: true,
			End: EndLookahead, Candidates: CandidatesEnds,
			Objective: ObjectiveExact, Capacity: 500,
		},
		Polling: Polling{
			Policy: PolicyHZ, Bootstrap: 5 * time.Minute, MinGap: 10 * time.Second, MaxGap: time.Hour,
			PollsPerPublication: 1.15, SD: SDFolded, PublishTimes: PublishAuto,
		},
		Store:     Store{Ballast: 64 << 20},
		Web:       Web{Listen: []string{"127.0.0.1:9683"}},
		Directory: Directory{DefaultLifetime: defaultLifetime},
		Limits: Limits{
			Body: 64 << 10, Blocks: 1024, BlockMin: 64, Progress: 10 * time.Second,
			PerHost: 64, PerSubnet: 256,
		},
		Log: Log{Level: "info", Format: "auto"},
	}
}

// defaultData is crawld.db in the first of the directories that systemd made
// for the unit (a list with colons), else in the working directory.
func defaultData() string {
	dir, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":")
	return filepath.Join(dir, "crawld.db")
}

// Theta is the budget of one range for a fleet of that many sensors, at least
// 1. A share of a crawl that Budget leaves over is not spent.
func (p Planner) Theta(sensors int) int {
	theta := p.Budget
	if p.BudgetPerSensor {
		// The product of a decimal fraction and a count may fall short of the
		// whole number that is meant: 0.07 * 100 = 7.000000000000001, 0.29 * 100 < 29.
		theta = math.Floor(p.Budget * float64(sensors) * (1 + 1e-12))
	}
	return int(min(max(theta, 1), math.MaxInt32))
}

// ResolvedTick is the tick in force: as written, else 100 ms, or 1 s for
// ranges above 12 h, so that a range stays within a few 100 000 ticks.
func (p Planner) ResolvedTick() time.Duration {
	switch {
	case p.Tick > 0:
		return p.Tick
	case p.Range > 12*time.Hour:
		return time.Second
	}
	return 100 * time.Millisecond
}

// StepTicks is the step in ticks, at least 1.
func (p Planner) StepTicks() int64 {
	if p.Step.Duration > 0 {
		return max(1, int64(p.Step.Duration/p.ResolvedTick()))
	}
	return max(1, p.Step.Ticks)
}
