// Package api is the daemon's HTTP face: metrics, health, a JSON API and plain
// pages over read-only views, and two calls that change something: the reload, and the
// publication of events to the Discovery Service.
//
//	GET  /                            fleet and table of sensors, as a page
//	GET  /search                      q, cursor: what was found, as a page
//	GET  /sensors/{id}, /sensors?id=  one sensor, as a page
//	GET  /metrics  /config  /-/healthy  /-/ready
//	POST /-/reload                    (or PUT) loopback and control-socket peers only
//	GET  /-/backup  /debug/pprof/...  control-socket peers only
//	GET  /api/v1/status               planner.Status, and what the store lacks
//	GET  /api/v1/plan                 limit, cursor
//	GET  /api/v1/search               q (package search), limit, cursor
//	GET  /api/v1/sensors              from, limit, state, label; or id, visits
//	GET  /api/v1/sensors/{id}         visits
//	GET  /api/v1/sensors/{id}/versions                before, limit
//	GET  /api/v1/sensors/{id}/versions/{hash}/body
//	GET  /api/v1/sensors/{id}/body                    of the version in force
//	GET  /api/v1/versions?id=   /api/v1/body?id=[&hash=]
//	GET  /api/v1/groups               from, limit
//	GET  /api/v1/groups/{id}
//	GET  /api/v1/groups/{id}/versions                 before, limit
//	GET  /api/v1/groups/{id}/versions/{hash}/body
//	GET  /api/v1/groups/{id}/body                     the newest snapshot
//
//	POST /events, POST /capture       a compact JWS over an EPCIS document, with a token
//	GET  /events                      GE_eventTime, LT_eventTime, perPage, nextPageToken
//	GET  /events/{id}
//	GET  /epcs/{epc}/events           as /events: what names the object itself
//	GET  /epcs/{epc}/trace            from, to, follow
//
// An id in a path is percent-encoded as one segment (url.PathEscape); the forms
// with ?id= are for clients behind proxies that decode %2F, and for the ids "."
// and "..", which no path can hold. Pages link to sensors in that form.
//
// JSON field names are API. Instants are RFC 3339, lengths of time seconds where
// the name says so. A list has at most 1000 rows and "next", which goes into the
// cursor parameter of the next request and is empty at the end. A list that is
// filtered may be short, even empty, and have a next: one request looks at so
// many sensors at most. Errors are {"error": "..."}; a query parameter that is
// unknown, repeated or out of range is an error and named.
//
// A search is over the descriptions in force of the sensors that are in the fleet now.
// Every hit has the age and the state of its sensor: it is what the sensor said then. The
// answer is complete if nothing follows it and no description had to be left out because
// its stored bytes are damaged ("unreadable" counts these).
//
// Events are answered as the REST binding of EPCIS 2.0 has it: in an EPCISQueryDocument, as
// published, with the next page as a Link. A capture is answered when it is committed,
// not with a job, and refused as a whole. Refusals have "code" beside "error".
//
// What is stored and damaged is answered as 503 with code "damaged" while the sensor is still
// going to be asked for it, else as 410. While there is no space publications are answered
// with 507; all reads go on.
//
// # Whom it trusts
//
// Who publishes needs a token and a signature; discovery.Gate checks them. Where readers are
// configured, queries of events need a token too, but for peers of the control socket, who
// could read the data file as well. All other reads are open to whoever reaches the port.
//
// Descriptions, answers and errors come from sensors, that is from anybody: pages escape
// them by context (html/template), show what is not printable by its number and never make a
// link of them; bodies are served with their own media type, never as HTML.
// Who comes over the control socket is told by Control, not by an address: clients of any
// unix socket have none. A page of another origin can make a browser send no more than GET
// and HEAD (http.CrossOriginProtection). Passwords and TLS are put around the handler.
//
// Nothing here dials a sensor or an address that a sensor sent. A proxy on the
// same host makes all its clients loopback peers: it must keep /-/reload to
// itself.
//
// # What a request may cost
//
// The planner belongs to the crawler's loop, so what runs there is short:
// pages of sensors, and for the whole fleet few requests at a time. Rows of the
// repository are copied before the first byte is written to the socket, because
// an open read transaction stops the data file's pages from being used again.
package api
