package visit

import (
	"fmt"
	"strings"
)

// Line is one line of a visit's transcript: a CoAP datagram, or a remark of the
// exchange layer, which has a Note and an Offset only.
type Line struct {
	Offset  float64  `json:"offset_seconds"` // since the visit began
	Sent    bool     `json:"sent"`           // by us
	Type    string   `json:"type,omitempty"` // CON, NON, ACK or RST; "" = no CoAP message
	Code    string   `json:"code,omitempty"` // "GET", "2.05"; "0.00" is an empty message
	MID     uint16   `json:"mid"`
	Token   string   `json:"token,omitempty"`   // hex
	Options []string `json:"options,omitempty"` // name and value, in the order of the wire
	Size    int      `json:"bytes"`             // of the datagram
	Payload int      `json:"payload_bytes,omitempty"`
	Head    []byte   `json:"payload_head,omitempty"` // first bytes of the payload, base64 in JSON
	Note    string   `json:"note,omitempty"`         // why a datagram was not taken; or the remark
}

// String is the line for people.
func (l Line) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%8.3fs ", l.Offset)
	if l.Size == 0 {
		return b.String() + "- " + l.Note
	}
	if l.Sent {
		b.WriteString(">")
	} else {
		b.WriteString("<")
	}
	if l.Type != "" {
		fmt.Fprintf(&b, " %s %s mid %d", l.Type, l.Code, l.MID)
	}
	if l.Token != "" {
		fmt.Fprintf(&b, " token %s", l.Token)
	}
	fmt.Fprintf(&b, " %d bytes", l.Size)
	if len(l.Options) > 0 {
		fmt.Fprintf(&b, " [%s]", strings.Join(l.Options, ", "))
	}
	if l.Payload > 0 {
		fmt.Fprintf(&b, " payload %d: %q", l.Payload, l.Head)
	}
	if l.Note != "" {
		fmt.Fprintf(&b, " (%s)", l.Note)
	}
	return b.String()
}
