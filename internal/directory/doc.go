// Package directory is a CoRE Resource Directory (RFC 9176) over CoAP and UDP: it finds what
// was crawled, and takes the registrations of endpoints. It decides nothing about crawls and
// stores nothing itself: what it is asked to do it does through the funcs of Options.
//
//	GET    /.well-known/core      announces the resources below (section 4.1)
//	GET    /rd-lookup/res, /ep    lookups (section 6)
//	POST   /rd                    registration (section 5)
//	POST   /rd/<number>           update (section 5.3.1)
//	DELETE /rd/<number>           removal (section 5.3.2)
//	POST   /.well-known/rd        simple registration (section 5.1): the sender is awake now
//	                              and is crawled before it gets its answer
//
// # Who may do what
//
// Without DTLS nobody can prove who he is, only where. So every right hangs on an address:
//
//   - A datagram from outside of Options.Networks gets no answer.
//   - Whoever wants a registration, or an answer more than three times as long as its
//     request, proves its address first: the answer is 4.01 with an Echo option (RFC 9175
//     section 2.3), and the request counts when it comes again with that. No datagram to
//     an unproven address is longer than three times the one that it answers.
//   - An endpoint name belongs to the address that took it until its lifetime ends (first
//     come, first remembered: RFC 9176 section 7.5). Update and removal are for that address.
//   - A base must be an IP address inside of Options.Networks: no name is resolved for a
//     stranger.
//   - A listed sensor's id can be registered from its listed address alone, and the
//     registration then only says that the sensor is awake: what the network says never takes
//     the place of what was listed. All others are crawled under ids that begin with "rd:".
//   - Registrations are limited per source address and in all.
//
// # Messages
//
// The message layer is the package's own, on the codec of go-coap. go-coap's server makes a
// connection with goroutines of its own for every source address, before any check, and
// gathers requests in blocks without a limit, neither of which can face senders that nobody
// knows. Here a peer costs one entry of a bounded table. A handler runs beside the reader; a
// confirmable request that comes again meanwhile is passed over, and one that comes again
// later gets the same answer (RFC 7252 section 4.5).
//
// Long answers go in blocks (RFC 7959). Later blocks are cut from the answer made for the
// first, while that is remembered.
package directory
