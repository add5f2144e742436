// Package testbed runs sleeping CoAP sensors on ports of 127.0.0.1: real UDP
// sockets, an event process each, and a log of every event and every request.
// The tests of the exchange layer, of the crawler and of the whole daemon share
// it, and so do `crawld demo` and `crawld testbed`.
//
// A Bed holds Sensors. A sensor captures events while it is awake (a Poisson
// process of its own seed); each event changes the description it serves. Asleep
// it hears nothing and says nothing, with its port still open: to a client that
// is the same as a datagram lost in the air. It can lose and duplicate datagrams,
// drift from the plan that the operator believes in, think before it answers,
// answer separately, in blocks or without an ETag, and misbehave in the ways
// named by the Fault constants and by Modes. A Proxy is a bad network in front of
// any UDP server. A Crowd is many plain sensors behind one socket, for load.
//
// What the bed logs is the truth a crawler is measured against: Latency and
// WastedRequests are computed from that log alone and share no code with what
// they measure.
package testbed
