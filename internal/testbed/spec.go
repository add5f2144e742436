package testbed

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/sleepplan"
)

// Fault is a way to misbehave: one of the constants, or the name of a Mode that has a
// script. The zero value is a sensor that behaves.
type Fault string

// The faults. A sensor that sleeps, loses or is slow is no fault: see Spec.
const (
	FaultDead        Fault = "dead"     // its port is open and it never answers, not even awake
	FaultClosed      Fault = "closed"   // its port is closed: ICMP unreachable to connected sockets
	FaultReset       Fault = "rst"      // RST to every request
	FaultGarbage     Fault = "garbage"  // bytes that are no CoAP message, and nothing else
	FaultNoise       Fault = "noise"    // such bytes first, then the answer
	FaultUnavailable Fault = "5.03"     // 5.03, with Max-Age if the Spec has one
	FaultNotFound    Fault = "4.04"     // 4.04 to every request
	FaultEndless     Fault = "endless"  // every block says that another one follows
	FaultOversize    Fault = "oversize" // endless, and Size2 announces 16 MiB
	FaultStuck       Fault = "stuck"    // block 0 whatever block is asked for, more to follow
	FaultJump        Fault = "jump"     // the number of each block but the first is one too high
	FaultFlip        Fault = "flip"     // another ETag with every block
	FaultStranger    Fault = "stranger" // answers from a port that nobody asked
)

var faults = []Fault{"", FaultDead, FaultClosed, FaultReset, FaultGarbage, FaultNoise,
	FaultUnavailable, FaultNotFound, FaultEndless, FaultOversize, FaultStuck, FaultJump,
	FaultFlip, FaultStranger}

// LinkFormat is the Content-Format of application/link-format (RFC 6690).
const LinkFormat = 40

// NoFormat as Spec.Format leaves the Content-Format out.
const NoFormat = -1

// Spec says what a sensor is. The zero value is an always-on, static sensor
// without faults.
type Spec struct {
	Name string // unique in the bed; default: "sensor-" and its number
	Path string // what it serves; default fleet.DefaultPath. All else is 4.04

	Listen netip.AddrPort // its address; port 0 = a free one; default 127.0.0.1:0

	// Plan is the true sleep plan. Unknown counts as always on: a sensor that
	// sleeps has a plan, whether or not anybody knows it. After the last window
	// of an explicit plan it sleeps for good.
	Plan   sleepplan.Plan
	Drift  time.Duration // its clock is late by this: so are its windows; negative: early
	Hidden bool          // the operator lists it without its plan
	Weight float64       // as the operator lists it; 0 = 1

	Rate   float64              // events per awake second, 0 .. 1000; 0 = static
	Body   func(seq int) []byte // description after that many events; default: link format
	Size   int                  // pads the default description; macOS sends 9216 bytes at once
	Format int                  // Content-Format; 0 = LinkFormat; NoFormat = left out

	Loss      float64 // share of datagrams lost in each direction, 0 .. 1
	Duplicate float64 // share of its datagrams that arrive twice, 0 .. 1

	Delay      time.Duration // think time before the answer
	Separate   bool          // empty ACK first, then the answer as a CON (RFC 7252 5.2.2)
	LoseAck    bool          // with Separate: the empty ACK never arrives
	NON        bool          // answers with NON messages
	AckTimeout time.Duration // ACK_TIMEOUT of its own CONs; 0 = 2 s
	Block      int           // block size it prefers: 16, 32 .. 1024; 0 = whole unless asked
	NoETag     bool          // neither sends nor reads ETags
	MaxAge     int           // seconds, in 2.05, 2.03 and 5.03; 0 = left out

	// Directory is where it registers itself by simple registration (RFC 9176 section 5.1)
	// whenever it wakes, under its name and for Lifetime; invalid: nowhere.
	Directory netip.AddrPort
	Lifetime  time.Duration

	Security *Security // nil = in plain
	TCP      bool      // RFC 8323: coap+tcp://, with Security coaps+tcp://; Loss does not apply

	Fault Fault
}

// check fills the defaults in and refuses what no sensor can be.
func (s *Spec) check() error {
	if s.Path == "" {
		s.Path = fleet.DefaultPath
	}
	if !s.Listen.IsValid() {
		s.Listen = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
	}
	if s.Weight == 0 {
		s.Weight = 1
	}
	if s.Format == 0 {
		s.Format = LinkFormat
	}
	if s.AckTimeout == 0 {
		s.AckTimeout = 2 * time.Second
	}
	sizes := []int{0, 16, 32, 64, 128, 256, 512, 1024}
	switch {
	case !(s.Rate >= 0 && s.Rate <= 1000):
		return fmt.Errorf("rate %v/s: must lie in 0 .. 1000 events per awake second", s.Rate)
	case !(s.Loss >= 0 && s.Loss <= 1):
		return fmt.Errorf("loss %v: must lie in 0 .. 1", s.Loss)
	case !(s.Duplicate >= 0 && s.Duplicate <= 1):
		return fmt.Errorf("duplicate %v: must lie in 0 .. 1", s.Duplicate)
	case !slices.Contains(sizes, s.Block):
		return fmt.Errorf("block %d: must be one of %v", s.Block, sizes)
	case s.Format < NoFormat || s.Format > 65535:
		return fmt.Errorf("format %d: must lie in -1 .. 65535", s.Format)
	case s.Delay < 0 || s.AckTimeout < 0 || s.MaxAge < 0 || s.Size < 0:
		return fmt.Errorf("delay, ack timeout, max-age and size must not be negative")
	case (s.Security != nil || s.TCP) && (s.Fault == FaultStranger || s.Fault == FaultClosed):
		return fmt.Errorf("fault %q: not with security or TCP", s.Fault)
	case s.TCP && s.Security != nil && s.Security.Keys != nil:
		return fmt.Errorf("TLS wants a certificate, not keys")
	case !slices.Contains(faults, s.Fault):
		if _, ok := scripted(s.Fault); !ok {
			return fmt.Errorf("fault %q: must be one of %q or the name of a Mode", s.Fault, faults)
		}
	}
	return nil
}
