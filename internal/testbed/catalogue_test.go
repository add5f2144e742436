package testbed

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/coapclient"
	"github.com/crawld/crawld/internal/linkformat"
	"github.com/crawld/crawld/internal/visit"
)

// verdict is what a visit to a sensor of some mode must come to.
type verdict struct {
	result  visit.Result
	reason  string
	contact bool
	sent    int // most datagrams, those left out that repeat a request
}

const (
	// squeeze is by how much all times are shorter than in the field.
	squeeze = 30
	// mostSent is what any visit may send, and mostStuck one that gets nowhere.
	mostSent, mostStuck = 256, 70
	mostKept            = 64 << 10
)

var (
	good    = verdict{visit.Described, "", true, 3}
	silent  = verdict{visit.Asleep, coapclient.ReasonTimeout, false, 1}
	refused = verdict{visit.Refused, coapclient.ReasonCode, true, 2}
	broken  = verdict{visit.Failed, coapclient.ReasonBlock, true, mostStuck}
	unknown = verdict{visit.Failed, coapclient.ReasonCritical, true, 2}
	capped  = verdict{visit.Failed, coapclient.ReasonLimit, true, mostStuck}
	dripped = verdict{visit.Failed, coapclient.ReasonProgress, true, mostStuck}
)

// verdicts has a row for each mode.
var verdicts = map[string]verdict{
	"dead": silent, "closed": {visit.Asleep, coapclient.ReasonICMP, false, 1},
	"rst":     {visit.Refused, coapclient.ReasonRST, true, 1},
	"garbage": silent, "noise": good, "stranger": silent,
	"duplicates": {visit.Described, "", true, 14}, "lost-ack": good,
	"ack-silence": {visit.Failed, coapclient.ReasonSilence, true, 1},
	"ack-chatter": {visit.Failed, coapclient.ReasonSilence, true, 1},
	"truncated":   silent, "version": silent, "token-length": silent, "wrong-token": silent,
	"short-token": silent, "wrong-mid": silent, "marker": silent, "mirror": silent,
	"flood": {visit.Described, "", true, 5}, "pings": good,

	"5.03": refused, "4.04": refused, "4.29": refused, "4.06": refused, "echo-loop": refused,
	"diagnostic": refused, "2.03": {visit.Failed, coapclient.ReasonCode, true, 1},
	"2.04":          {visit.Failed, coapclient.ReasonCode, true, 1},
	"reserved-code": silent, "critical": unknown, "critical-twice": unknown,
	"critical-long": unknown, "proxy-uri": unknown, "redirect": good, "options": silent,
	"etag-long": good, "max-age-zero": good, "max-age-long": good,
	// The stock sensor gets a request that accepts link format only.
	"format-unknown": {visit.Described, "", true, 2}, "format-lie": good,

	"endless": capped, "oversize": capped, "stuck": broken, "jump": broken, "flip": broken,
	// It cannot be told from a body of 64 KiB in small blocks, and ends where that would.
	"endless-small": {visit.Failed, coapclient.ReasonLimit, true, 1024},
	"stuck-con":     capped, "etag-vanishes": broken, "format-flips": broken,
	"block-vanishes": broken, "block-short": broken, "block-long": broken,
	"block-grows": broken, "block-tiny": capped, "block-reserved": broken,
	"valid-midway": {visit.Failed, coapclient.ReasonCode, true, 2},
	"drip":         {visit.Failed, coapclient.ReasonDeadline, true, 110},
	"drip-slow":    dripped,
	"drip-acked":   {visit.Failed, coapclient.ReasonSilence, true, mostStuck},

	"jumbo": good, "link-bomb": good, "attribute-bomb": good, "quote-bomb": good, "utf8": good,
	"nul": good, "html": good, "ssrf": good,
}

// encounter is a visit to each mode by one client.
type encounter struct {
	bed      *Bed
	outcomes map[string]visit.Outcome
	stats    coapclient.Stats
	took     map[string]time.Duration
	sockets  int // of this process during the visits, less those of the bed
}

// visitAll visits every mode once, all at once, with times squeezed.
func visitAll(t *testing.T, limits coapclient.Limits) encounter {
	t.Helper()
	e := encounter{newBed(t), map[string]visit.Outcome{}, coapclient.Stats{},
		map[string]time.Duration{}, 0}
	for _, m := range Modes() {
		spec := m.Spec
		spec.Name, spec.Delay, spec.AckTimeout = m.Name, spec.Delay/squeeze, 2*time.Second/squeeze
		add(t, e.bed, spec)
	}
	before := sockets(t)
	client, err := coapclient.New(coapclient.Options{Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	deadline := coapclient.MaxVisit / squeeze
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, s := range e.bed.Sensors() {
		wg.Go(func() {
			began := time.Now()
			out := client.Fetch(context.Background(), visit.Visit{URI: s.URI(), At: began,
				Deadline: began.Add(deadline), Retrans: 3, AckTimeout: 2 * time.Second / squeeze})
			mu.Lock()
			defer mu.Unlock()
			e.outcomes[s.Name()], e.took[s.Name()] = out, time.Since(began)
			e.sockets = max(e.sockets, sockets(t)-before)
		})
	}
	wg.Wait()
	e.stats = client.Stats()
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	return e
}

// sockets counts the open sockets of this process; 0 where the system does not tell.
func sockets(t *testing.T) (n int) {
	if runtime.GOOS != "linux" {
		return 0
	}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Error(err)
	}
	for _, f := range files {
		to, _ := os.Readlink("/proc/self/fd/" + f.Name()) // it may be closed by now
		if strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// faults are what an encounter shows that must not be.
func (e encounter) faults() (all []string) {
	accuse := func(name, format string, args ...any) {
		all = append(all, name+": "+fmt.Sprintf(format, args...))
	}
	sent := 0
	for _, m := range Modes() {
		out, want := e.outcomes[m.Name], verdicts[m.Name]
		sent += out.DatagramsSent
		if out.Result != want.result || out.Reason != want.reason || out.Contact != want.contact {
			accuse(m.Name, "%v %q contact=%v (%s), want %v %q contact=%v", out.Result, out.Reason,
				out.Contact, out.Error, want.result, want.reason, want.contact)
		}
		if n := out.DatagramsSent - out.Retransmissions; n > want.sent {
			accuse(m.Name, "%d datagrams sent, %d allowed", n, want.sent)
		}
		if most := want.sent + mostStuck; out.DatagramsSent > most {
			accuse(m.Name, "%d datagrams sent, %d allowed", out.DatagramsSent, most)
		}
		if len(out.Body) > mostKept {
			accuse(m.Name, "%d bytes kept", len(out.Body))
		}
		// The rest is what a busy machine takes to wake a goroutine.
		if late := e.took[m.Name] - coapclient.MaxVisit/squeeze; late > 2*time.Second {
			accuse(m.Name, "ended %v after its deadline", late)
		}
	}
	// Every datagram that left belongs to a visit, or acknowledges a late response to
	// one; and a visit's go to the address that was listed and to no other.
	if n := int(e.stats.Sent); n != sent+int(e.stats.Late) {
		accuse("all", "%d datagrams left, visits account for %d and %d late ones", n, sent,
			e.stats.Late)
	}
	if e.sockets > 2 { // one for each family
		accuse("all", "%d more sockets than before", e.sockets)
	}
	return all
}

// Every mode ends by its deadline within its datagrams, keeps no more than a body, is
// told by the right words, and nobody is contacted but who was listed.
func TestHostileCatalogue(t *testing.T) {
	if n := len(Modes()); n < 40 || n != len(verdicts) {
		t.Errorf("%d modes, %d verdicts", n, len(verdicts))
	}
	e := visitAll(t, coapclient.Limits{Progress: 10 * time.Second / squeeze})
	for _, fault := range e.faults() {
		t.Error(fault)
	}
	for name, v := range verdicts {
		if v.sent > mostSent && name != "endless-small" {
			t.Errorf("%s: a verdict that allows %d datagrams", name, v.sent)
		}
	}
	if e.stats.Unasked < floodSize/100 { // most of a flood is lost in the socket's buffer
		t.Errorf("%d unasked requests came", e.stats.Unasked)
	}
	unchallenged(t, e.bed)
}

// unchallenged expects that no sensor but one that sent a response got an ACK or RST:
// what nobody asked for is not answered.
func unchallenged(t *testing.T, b *Bed) {
	t.Helper()
	for _, r := range b.Requests() {
		answered := []string{"lost-ack", "stuck-con", "critical", "critical-twice",
			"critical-long", "proxy-uri"}
		if (r.Kind == KindAck || r.Kind == KindReset) && !slices.Contains(answered, r.Sensor) {
			t.Errorf("%s drew %+v", r.Sensor, r)
		}
	}
}

// A client without the progress rule and the bound on fruitless datagrams is caught by
// the same test.
func TestHostileCatalogueCatchesAClientWithoutRules(t *testing.T) {
	e := visitAll(t, coapclient.Limits{Progress: time.Hour, Datagrams: 1 << 20})
	faults := strings.Join(e.faults(), "\n")
	for _, name := range []string{"stuck-con", "drip-slow"} {
		if !strings.Contains(faults, name+": ") {
			t.Errorf("%s was not noticed:\n%s", name, faults)
		}
	}
}

// What a description points to is never contacted.
func TestPointersAreNotFollowed(t *testing.T) {
	canary, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer canary.Close()
	m, err := ModeNamed("ssrf")
	if err != nil {
		t.Fatal(err)
	}
	body := strings.ReplaceAll(string(m.Spec.Body(0)), "127.0.0.1:1", addrOf(canary).String())
	m.Spec.Body = fixed(body)
	s := add(t, newBed(t), m.Spec)
	client, err := coapclient.New(coapclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out := client.Fetch(t.Context(), visit.Visit{URI: s.URI(), Deadline: time.Now().Add(patience),
		Retrans: 4})
	stats := client.Stats()
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if out.Result != visit.Described || out.Verdict != string(linkformat.Valid) ||
		!strings.Contains(string(out.Body), addrOf(canary).String()) {
		t.Fatalf("%v %s: %q", out.Result, out.Verdict, out.Body)
	}
	if stats.Sent != 1 {
		t.Errorf("%d datagrams left", stats.Sent)
	}
	c := &peer{t, canary}
	if d := c.datagram(10 * time.Millisecond); d != nil {
		t.Errorf("the canary got % x", d)
	}
}

// Every mode says in one sentence what it does, under a name that a command line takes,
// and survives a client that breaks the rules itself.
func TestModes(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Modes() {
		if seen[m.Name] || strings.ContainsAny(m.Name, " ,=") || m.Does == "" ||
			strings.HasSuffix(m.Does, ".") {
			t.Errorf("mode %q: %q", m.Name, m.Does)
		}
		seen[m.Name] = true
		if m.Spec.Path != "" || m.Spec.Name != "" {
			t.Errorf("mode %q has %+v", m.Name, m.Spec)
		}
		s := add(t, newBed(t), m.Spec)
		if m.Name == string(FaultClosed) || m.Name == "flood" {
			continue
		}
		c := dial(t, s)
		for _, token := range []string{"", "12345678"} {
			c.send(get(1, token))
			c.send(get(2, token, number(23, 1<<24-1)))
		}
		c.raw([]byte{0x40})
		settled(t, s.bed, 5)
	}
	if _, err := ModeNamed("nice"); err == nil || !strings.Contains(err.Error(), "stuck-con") {
		t.Errorf("unknown mode: %v", err)
	}
}
