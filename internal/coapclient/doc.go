// Package coapclient fetches one description from one sensor over CoAP on UDP,
// DTLS, TCP or TLS: messages and retransmission (RFC 7252), block-wise transfer
// (RFC 7959), Echo (RFC 9175), framing on streams (RFC 8323) and the limits that
// keep a difficult or hostile sensor from costing more than its share.
//
// All visits share a few unconnected sockets, each read by one goroutine. The
// goroutine that calls Fetch drives its own exchange, so a sensor that is not
// being visited costs no goroutine, and no memory once EXCHANGE_LIFETIME
// (247 s) has passed since its last datagram:
//
//	Fetch: resolve -> seat (sensor, host, subnet) -> transfer -> Outcome
//	                                                  |  ^
//	                                             send |  | inbox
//	                                                  v  |
//	reader: socket -> dispatch: active[address], token and Message ID match
//	                            everything else: counted and dropped
//
// NSTART is 1 (RFC 7252 section 4.7), so an address names at most one exchange;
// token and Message ID are compared within it.
//
// A visit over DTLS, TCP or TLS has a connection of its own, for as long as it
// lasts; it carries the same messages to the same exchange:
//
//	exchange <-> connection: association (carrier: UDP socket, counted, bounded)
//	                         stream      (frames of RFC 8323)
//
// Of an association that has a Connection ID (RFC 9146) the state is kept in
// package sessionfile, and the next visit goes on with it: one datagram each way.
// The state leaves the file before it is used, and the socket is muted before it
// is taken again, so no record number is ever used twice. A secure sensor is
// never tried in plain, and at most 64 handshakes run at once. Raw public keys
// (RFC 7250) are not supported: pion/dtls does not have them.
//
// A visit never fails with an error: what became of it, and why, is in the
// Outcome. Its Reason is one of the Reason constants.
package coapclient

// Reasons are the short stable words in visit.Outcome.Reason. The empty word
// stands for success.
const (
	ReasonTimeout   = "timeout"           // every transmission went unanswered
	ReasonICMP      = "icmp"              // the network said unreachable
	ReasonRST       = "rst"               // the sensor reset the exchange
	ReasonCode      = "code"              // a response code that carries no description
	ReasonBlock     = "block"             // blocks that do not make one body
	ReasonLimit     = "limit"             // one of Limits was reached
	ReasonFormat    = "format"            // the request cannot be written as CoAP
	ReasonCritical  = "critical-option"   // a critical option we do not know
	ReasonDeadline  = "deadline"          // the visit's deadline came first
	ReasonCancelled = "cancelled"         // the context or the client was closed
	ReasonResolve   = "resolve"           // the name has no usable address
	ReasonNetwork   = "network"           // address not allowed, or no way to send there
	ReasonSilence   = "silence-after-ack" // empty ACK, then no response
	ReasonProgress  = "no-progress"       // answers, but no new block for too long
	ReasonTransport = "transport"         // scheme or address we do not speak
	ReasonAuth      = "authentication"    // no trust: wrong key, certificate or identity
	ReasonClosed    = "closed"            // the sensor ended the connection
	ReasonExhausted = "exhausted"         // no descriptor or memory left here to ask with
)
