package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/crawld/crawld/internal/epcis"
)

// The clothing factory that the Discovery Service paper surveyed (section IV.B): 20-30
// articles in a box, at most about 150 boxes in a container, 3-5 links of the supply chain.
const (
	leastPerBox, mostPerBox = 20, 30
	leastBoxes, mostBoxes   = 90, 150
	leastLinks, mostLinks   = 3, 5
	// mostTraced events are found for an article: 3 of its own, 3 or 4 in each link.
	mostTraced = 18
	// oneStyle articles in a row have the same GTIN.
	oneStyle = 10_000
	// fleetDays later a container may be loaded again: a journey takes at most 9 days.
	fleetDays = 10
	services  = 60
)

// shipmentsEpoch is when the first consignment is made.
var shipmentsEpoch = time.Date(2025, 1, 6, 6, 0, 0, 0, time.UTC)

// Shipments makes the events of a factory's articles on their way to the shops, one
// consignment after another, so that no more than one is held at a time. Equal seeds and
// equal calls make equal events.
//
// Each article is commissioned by an event of its own, and packed into and taken out of
// its box with the others. A consignment goes through 3-5 links; in each its boxes are
// loaded into a container, which is seen once or twice, and unloaded.
type Shipments struct {
	seed         uint64
	consignments int
	articles     int
	boxes        int
	published    int
}

// NewShipments is a factory that has made nothing yet.
func NewShipments(seed uint64) *Shipments { return &Shipments{seed: seed} }

// Articles is how many have been made so far.
func (s *Shipments) Articles() int { return s.articles }

// Article is the canonical name of an article, counted from 0.
func Article(i int) string {
	gtin := checked(fmt.Sprintf("0952114%06d", i/oneStyle))
	return "https://id.gs1.org/01/" + gtin + "/21/" + strconv.Itoa(i)
}

func box(i int) string {
	return "https://id.gs1.org/00/" + checked(fmt.Sprintf("09521141%09d", i))
}

func container(day, link int) string {
	n := day%fleetDays*mostLinks + link
	return "https://id.gs1.org/8003/0" + checked("952114100017") + strconv.Itoa(n)
}

// checked adds the check digit (GS1 General Specifications, section 7.9): digits weigh 3
// and 1 in turn, the last one 3.
func checked(digits string) string {
	sum := 0
	for i := range digits {
		weight := 1 + 2*((len(digits)-i)%2)
		sum += weight * int(digits[i]-'0')
	}
	return digits + strconv.Itoa((10-sum%10)%10)
}

// Next makes a consignment, ordered by time, of at most that many articles; boxes must be
// able to hold them (boxable). It is never of more than mostBoxes full boxes.
func (s *Shipments) Next(most int) []epcis.Event {
	c := consignment{rng: rand.New(rand.NewPCG(s.seed, uint64(s.consignments))),
		at: shipmentsEpoch.AddDate(0, 0, s.consignments), factory: s.consignments % 4}
	boxes := leastBoxes + c.rng.IntN(mostBoxes-leastBoxes+1)
	var packed []parcel
	for len(packed) < boxes && most > 0 {
		p := parcel{box: box(s.boxes)}
		for range c.size(most) {
			p.articles = append(p.articles, Article(s.articles))
			s.articles++
		}
		s.boxes++
		most -= len(p.articles)
		packed = append(packed, p)
	}
	c.pack(packed)
	c.carry(s.consignments, packed)
	c.unpack(packed)
	s.consignments++
	return c.events
}

// boxable tells whether boxes of 20 to 30 can hold n articles without any left: they
// cannot hold less than 20, nor 31 to 39.
func boxable(n int) bool {
	boxes := (n + mostPerBox - 1) / mostPerBox
	return n >= 0 && n >= boxes*leastPerBox
}

// Published makes an event that sees 20 articles anywhere among those made so far: what
// the paper's publishers send (section IV.F).
func (s *Shipments) Published() epcis.Event {
	const articles = 20
	c := consignment{rng: rand.New(rand.NewPCG(s.seed, 1<<63|uint64(s.published))),
		at: shipmentsEpoch.AddDate(0, 0, s.consignments+fleetDays)}
	c.at = c.at.Add(time.Duration(s.published) * time.Millisecond)
	s.published++
	chosen := map[int]bool{}
	var objects []string
	for len(objects) < min(articles, s.articles) {
		if i := c.rng.IntN(s.articles); !chosen[i] {
			chosen[i] = true
			objects = append(objects, Article(i))
		}
	}
	c.add(epcis.Event{Kind: epcis.Object, Action: epcis.Observe, BizStep: "inspecting",
		Source: service(c.rng.IntN(services)), EPCs: objects})
	return c.events[0]
}

// parcel is a box with what is in it.
type parcel struct {
	box      string
	articles []string
}

// consignment is one that is being made.
type consignment struct {
	rng     *rand.Rand
	at      time.Time // of the next event
	factory int
	events  []epcis.Event
}

func service(i int) string { return fmt.Sprintf("is-%03d", i) }

// size draws how many articles the next box holds, so that boxes can hold the rest.
func (c *consignment) size(left int) int {
	for {
		n := leastPerBox + c.rng.IntN(mostPerBox-leastPerBox+1)
		if boxable(left - n) {
			return n
		}
	}
}

func (c *consignment) pack(packed []parcel) {
	from := service(c.factory)
	for _, p := range packed {
		for _, a := range p.articles {
			c.add(epcis.Event{Kind: epcis.Object, Action: epcis.Add, BizStep: "commissioning",
				Source: from, EPCs: []string{a}})
			c.wait(2*time.Second, 2*time.Second)
		}
		c.add(epcis.Event{Kind: epcis.Aggregation, Action: epcis.Add, BizStep: "packing",
			Source: from, Parent: p.box, EPCs: p.articles})
		c.wait(5*time.Second, 10*time.Second)
	}
}

// carry takes the boxes through the links. A container is seen twice in some links, as
// long as an article has no more than mostTraced events.
func (c *consignment) carry(day int, packed []parcel) {
	var boxes []string
	for _, p := range packed {
		boxes = append(boxes, p.box)
	}
	links := leastLinks + c.rng.IntN(mostLinks-leastLinks+1)
	twice := c.rng.IntN(min(links, mostTraced-3-3*links) + 1)
	for link := range links {
		from, in := service(4+c.rng.IntN(services-4)), container(day, link)
		c.wait(2*time.Hour, 2*time.Hour)
		c.add(epcis.Event{Kind: epcis.Aggregation, Action: epcis.Add, BizStep: "loading",
			Source: from, Parent: in, EPCs: boxes})
		steps := []string{"departing", "arriving"}
		if link >= twice {
			steps = steps[1:]
		}
		for _, step := range steps {
			c.wait(4*time.Hour, 12*time.Hour)
			c.add(epcis.Event{Kind: epcis.Object, Action: epcis.Observe, BizStep: step,
				Source: from, EPCs: []string{in}})
		}
		c.wait(time.Hour, time.Hour)
		c.add(epcis.Event{Kind: epcis.Aggregation, Action: epcis.Delete, BizStep: "unloading",
			Source: from, Parent: in, EPCs: boxes})
	}
}

func (c *consignment) unpack(packed []parcel) {
	from := service(4 + c.rng.IntN(services-4))
	c.wait(time.Hour, time.Hour)
	for _, p := range packed {
		c.add(epcis.Event{Kind: epcis.Aggregation, Action: epcis.Delete, BizStep: "unpacking",
			Source: from, Parent: p.box, EPCs: p.articles})
		c.wait(10*time.Second, 20*time.Second)
	}
}

// wait lets at least so much time pass, and up to so much more.
func (c *consignment) wait(least, more time.Duration) {
	extra := time.Duration(c.rng.Int64N(int64(more)))
	c.at = c.at.Add((least + extra).Truncate(time.Millisecond))
}

// publishedEvent is an event in the JSON binding of EPCIS 2.0.
type publishedEvent struct {
	Type      string   `json:"type"`
	ID        string   `json:"eventID"`
	Time      string   `json:"eventTime"`
	Offset    string   `json:"eventTimeZoneOffset"`
	EPCs      []string `json:"epcList,omitempty"`
	Parent    string   `json:"parentID,omitempty"`
	Children  []string `json:"childEPCs,omitempty"`
	Action    string   `json:"action"`
	BizStep   string   `json:"bizStep"`
	ReadPoint place    `json:"readPoint"`
	Source    string   `json:"crawld:source"`
}

type place struct {
	ID string `json:"id"`
}

// add completes an event by its instant, its ID and its text.
func (c *consignment) add(e epcis.Event) {
	e.Time, e.Offset, e.ID = c.at, "+00:00", c.uuid()
	p := publishedEvent{Type: "ObjectEvent", ID: e.ID, Offset: e.Offset, EPCs: e.EPCs,
		BizStep: e.BizStep, Time: e.Time.Format("2006-01-02T15:04:05.000Z"),
		ReadPoint: place{"https://id.gs1.org/414/" + checked("952114100"+e.Source[3:])}, Source: e.Source,
		Action: [...]string{epcis.Add: "ADD", epcis.Observe: "OBSERVE", epcis.Delete: "DELETE"}[e.Action]}
	if e.Kind == epcis.Aggregation {
		p.Type, p.EPCs, p.Parent, p.Children = "AggregationEvent", nil, e.Parent, e.EPCs
	}
	raw, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings alone
	}
	// The ID tells events apart. A CBV hash would cost more than all else here.
	e.Raw, e.Hash = raw, sha256.Sum256(raw)
	c.events = append(c.events, e)
}

// uuid draws a version 4 UUID (RFC 9562, section 5.4).
func (c *consignment) uuid() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], c.rng.Uint64())
	binary.BigEndian.PutUint64(b[8:], c.rng.Uint64())
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
