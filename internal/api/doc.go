// Package api is the daemon's HTTP face: metrics, health, a JSON API and plain
// pages over read-only views, and one call that changes something, the reload.
//
//	GET  /                            fleet and table of sensors, as a page
//	GET  /search                      q, cursor: what was found, as a page
//	GET  /sensors/{id}, /sensors?id=  one sensor, as a page
//	GET  /metrics  /config  /-/healthy  /-/ready
//	POST /-/reload                    (or PUT) loopback and unix-socket peers only
//	GET  /api/v1/status               planner.Status
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
// # Whom it trusts
//
// Reads are open to whoever reaches the port. Descriptions, answers and errors
// come from sensors, that is from anybody: pages escape them by context
// (html/template), show what is not printable by its number and never make a
// link of them; bodies are served with their own media type, never as HTML.
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
