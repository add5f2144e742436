package crawld

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/crawld/crawld/internal/mutant"
)

// mutants are mistakes, each in one file of a package, and the test that must notice it.
var mutants = []struct {
	name    string
	file    string
	changes []mutant.Change
	pkg     string
	test    string
}{
	{"acknowledge before the commit", "internal/repository/commit.go", []mutant.Change{
		{Old: "			err = r.named(r.carryOut(inOrder(todo)))\n", New: `			for _, o := range todo {
				o.done(nil)
			}
			time.Sleep(50 * time.Millisecond)
			_ = r.named(r.carryOut(inOrder(todo)))
			continue
`},
		{Old: "\t\"syscall\"\n", New: "\t\"syscall\"\n\t\"time\"\n"},
	}, "internal/repository", "TestKillLosesNothingAcknowledged"},

	{"commit without a sync", "internal/repository/open.go", []mutant.Change{
		{Old: "FreelistType: bbolt.FreelistMapType,\n",
			New: "FreelistType: bbolt.FreelistMapType,\nNoSync: true,\n"},
	}, "internal/repository", "TestPowerCut"},

	{"create without a sync of the folder", "internal/repository/schema.go", []mutant.Change{
		{Old: "return errors.Join(d.Sync(), d.Close())", New: "return d.Close()"},
	}, "internal/repository", "TestPowerCut"},

	{"serve a body without a look at its hash", "internal/repository/read.go", []mutant.Change{
		{Old: "err != nil || got != sum {", New: "err != nil || false && got != sum {"},
		{Old: "	if !bytes.Equal(sum[hashLen:]", New: "	if false && !bytes.Equal(sum[hashLen:]"},
	}, "internal/repository", "TestFlippedBody"},

	{"write on after a sync has failed", "internal/repository/commit.go", []mutant.Change{
		{Old: "	r.broken = err\n	r.stats.broken.Store(true)\n", New: ""},
	}, "internal/repository", "TestReopen"},

	{"hold on to the ballast", "internal/repository/commit.go", []mutant.Change{
		{Old: "&& r.giveUpBallast() {", New: "&& false {"},
	}, "internal/repository", "TestFullDisk"},

	{"a body that has come again stays in quarantine", "internal/repository/commit.go",
		[]mutant.Change{{Old: "	r.quarantine.remove(t.healed)\n", New: ""}},
		"internal/repository", "TestQuarantine"},

	{"ask sensors although it cannot be kept", "internal/crawler/loop.go", []mutant.Change{
		{Old: "c.o.Hold != nil && c.o.Hold()", New: "false && c.o.Hold()"},
	}, "internal/app", "TestNoSpaceHoldsCrawls"},

	{"trust the ETag of a damaged body", "internal/app/tend.go", []mutant.Change{
		{Old: "		v.Full = true\n", New: ""},
	}, "internal/app", "TestDamagedBodyIsFetched"},

	{"a spent budget", "internal/planner/next.go", []mutant.Change{
		{Old: "s.rec.Used >= s.limit() || p.spent >= p.rec.Theta", New: "s.rec.Used >= s.limit()"},
		{Old: "return planned || p.spent+p.left < p.rec.Theta", New: "_ = planned\n\treturn true"},
	}, "internal/sim", "TestVirtualDay"},

	{"no ACK to a separate response", "internal/coapclient/retransmit.go", []mutant.Change{
		{Old: "	if r.typ == message.Confirmable {\n		if f := e.answer(message.Acknowledgement",
			New: "	if false {\n		if f := e.answer(message.Acknowledgement"},
	}, "internal/coapclient", "TestPlugtests"},

	{"no progress rule", "internal/coapclient/retransmit.go", []mutant.Change{
		{Old: "	if e.contact && (e.heard ||", New: "	if false && (e.heard ||"},
	}, "internal/testbed", "TestHostileCatalogue"},

	{"a number that no block may have", "internal/coapclient/block.go", []mutant.Change{
		{Old: "	case b.offset() != len(d.body):", New: "	case false:"},
	}, "internal/testbed", "TestHostileCatalogue"},
	{"a budget that a jump of the clock renews", "internal/planner/jump.go", []mutant.Change{
		{Old: "	p.pending, p.asked = nil, time.Time{}\n",
			New: "	p.pending, p.asked = nil, time.Time{}\n\tp.spent = 0\n"},
	}, "internal/sim", "TestClockJumps"},

	{"a cap one too high", "internal/planner/planner.go", []mutant.Change{
		{Old: "	return s.MaxCrawls\n", New: "	return s.MaxCrawls + 1\n"},
	}, "internal/sim", "TestVirtualDay"},
}

// What guards the promises to users must notice when one is broken.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			overlay, err := mutant.Overlay(t.TempDir(), m.file, m.changes...)
			if err != nil {
				t.Fatal(err)
			}
			out, err := testWith(overlay, m.pkg, m.test)
			failed := strings.Contains(out, "--- FAIL: "+m.test)
			switch {
			case failed:
				t.Logf("noticed: %s", firstFault(out))
			case strings.Contains(out, "--- SKIP: "+m.test):
				t.Skipf("skipped, as %s is", m.test)
			default:
				t.Errorf("%s did not notice: %v\n%s", m.test, err, out)
			}
		})
	}
}

// testWith runs one test of a package with its short counts.
func testWith(overlay, pkg, test string) (out string, err error) {
	cmd := exec.Command("go", "test", "-overlay", overlay, "-count=1", "-v", "-run", "^"+test+"$",
		"./"+pkg)
	cmd.Env = append(os.Environ(), "CRAWLD_CI=")
	raw, err := cmd.CombinedOutput()
	return string(raw), err
}

// firstFault is the first line that a failed test wrote, cut to a readable length.
func firstFault(out string) string {
	for line := range strings.Lines(out) {
		if strings.Contains(line, "_test.go:") {
			return fmt.Sprintf("%.160s", strings.TrimSpace(line))
		}
	}
	return ""
}
