package main

import (
	"regexp"
	"strconv"
)

// invariant is one promise and the tests that try to break it. A row is all that a new one
// needs; TestTableNamesTests sees to it that its tests exist.
type invariant struct {
	id, name string
	pkg      string   // of the tests, as go test takes it
	run      string   // pattern of their names; "" = every fuzz target of every package
	args     []string // further arguments of go test
	once     bool     // it takes minutes: only the first round has it
	counts   []count
}

// count finds a figure in what a test logs: the product of the groups, as often as the
// pattern is met, times scale.
type count struct {
	unit    string
	pattern *regexp.Regexp
	scale   float64
}

// The figures that the track record leads with.
const (
	killed  = "kills survived"
	images  = "crash images"
	fuzzed  = "fuzz executions"
	virtual = "virtual sensor-years"
)

const hoursPerYear = 8766

func times(unit, pattern string) count {
	return count{unit, regexp.MustCompile(pattern), 1}
}

// sensorYears are those of simulated time.
var sensorYears = []count{
	{virtual, regexp.MustCompile(`(\d+) sensors, (\d+) h: `), 1.0 / hoursPerYear}}

// invariants are run in this order, round by round. Those whose tests are random take
// their seed from CRAWLD_SEED; kills and the wire are random by nature.
var invariants = []invariant{
	{id: "T1", name: "virtual day", pkg: "./internal/sim",
		run: "^(TestVirtualDay|TestVirtualRush|TestObserverCatches)$", counts: sensorYears},
	{id: "T1", name: "a million sensors, an hour", pkg: "./internal/sim", run: "^TestVirtualHour$",
		once: true, counts: sensorYears},
	{id: "T2", name: "clock jumps", pkg: "./internal/sim", run: "^TestClockJumps$",
		counts: []count{times("jumps", `(\d+) jumps \(`)}},
	{id: "T2", name: "clock jumps, real loop", pkg: "./internal/crawler",
		run: "^TestFollowsTheWallClock$"},
	{id: "T3", name: "store against a model", pkg: "./internal/repository",
		run: "^(TestModel|TestEventModel)$"},
	{id: "T3", name: "plan, history, search", pkg: "./internal/app", run: "^TestRingAgainstModel$",
		counts: []count{times("sequences", `(\d+) sequences`)}},
	{id: "T4", name: "kills of the daemon", pkg: "./cmd/crawld",
		run:    "^(TestKillLosesNothingStored|TestKillWhilePublishing)$",
		counts: []count{times(killed, `: (\d+) kills, `)}},
	{id: "T5", name: "power cuts", pkg: "./internal/repository", run: "^TestPowerCut",
		counts: []count{times(images, `(\d+) images of `)}},
	{id: "T6", name: "failpoints", pkg: "./internal/repository",
		run: "^(TestFailpoints|TestFailpointsCatchEarlyAcknowledgement)$"},
	{id: "T7", name: "loss, duplicates, disorder", pkg: "./internal/coapclient", run: "^TestLoss$"},
	{id: "T8", name: "hostile sensors, one by one", pkg: "./internal/testbed",
		run: "^(TestHostileCatalogue|TestHostileCatalogueCatchesAClientWithoutRules|TestPointersAreNotFollowed)$"},
	{id: "T8", name: "hostile sensors, blocks", pkg: "./internal/coapclient",
		run: "^(TestHostileBlocks|TestStuckConfirmable|TestSlowDrip|TestStrangers|TestHostileStreams|TestHandshakeFlood)$"},
	{id: "T8", name: "hostile sensors in a plan", pkg: "./internal/sim",
		run: "^TestHostileFewAmongPlanned$"},
	{id: "T8", name: "hostile sensors among others", pkg: "./cmd/crawld",
		run: "^(TestHostileFew|TestHostileFewPlanned)$"},
	{id: "T9", name: "real load", pkg: "./cmd/crawld", run: "^TestLoad$", once: true,
		counts: []count{times("crawls", `; (\d+) crawls, `)}},
	{id: "T10", name: "full and broken disk", pkg: "./internal/repository",
		run: "^(TestFull|TestFullDisk|TestOutOfSpace|TestBroken|TestQuota)$"},
	{id: "T10", name: "full and broken disk, daemon", pkg: "./cmd/crawld",
		run: "^(TestDiskFills|TestSyncFails)$"},
	{id: "T11", name: "no descriptor left", pkg: "./cmd/crawld", run: "^TestFewDescriptors$"},
	{id: "T12", name: "reload under load", pkg: "./internal/app", run: "^TestReloadUnderLoad$",
		args: []string{"-race"}},
	{id: "T13", name: "damaged database", pkg: "./internal/repository",
		run:    "^(TestDamagedFiles|TestDamagedRows|TestFlippedBody)$",
		counts: []count{times("damaged files", `(\d+) damaged files`)}},
	{id: "T14", name: "fuzzing", counts: []count{times(fuzzed, `(?s:.*)execs: (\d+)`)}},
	{id: "T15", name: "forged and repeated events", pkg: "./internal/api",
		run: "^(TestPublishRefusals|TestPublishersTogether|TestConflict)$"},
	{id: "T16", name: "authorisation of every route", pkg: "./internal/api",
		run: "^TestAuthorisation"},
	{id: "T16", name: "slow, long, smuggled requests", pkg: "./internal/app",
		run: "^(TestSlowClients|TestLongBodiesAreCut|TestSmuggling)$"},
	{id: "T17", name: "other implementations", pkg: "./internal/coapclient",
		run: "^(TestLibcoapServer|TestLibcoapPSK|TestLibcoapOverTCP|TestGoCoAPServer|TestPlugtests|TestPlugtestsDTLS)$"},
	{id: "T17", name: "other implementations, daemon", pkg: "./cmd/crawld", run: "^TestPeers$"},
	{id: "L", name: "learned sleep plans", pkg: "./internal/dpt", run: "^TestLearner", once: true},
	{id: "L", name: "half a fleet hides its plans", pkg: "./internal/sim",
		run: "^TestHiddenSleepPlansAreLearned$"},
	{id: "T18", name: "unit file", pkg: "./deploy", run: "^(TestUnit|TestNothingNeeded)"},
}

// in sums the count up over an output.
func (c count) in(output string) float64 {
	sum := 0.0
	for _, groups := range c.pattern.FindAllStringSubmatch(output, -1) {
		product := c.scale
		for _, text := range groups[1:] {
			n, _ := strconv.ParseFloat(text, 64) // the pattern lets only digits through
			product *= n
		}
		sum += product
	}
	return sum
}
