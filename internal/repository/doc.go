// Package repository keeps everything that crawld persists in one bbolt file:
// descriptions of sensors and their history, what became of every visit, the
// planner's records and the running crawl plans.
//
// The schema is the one of the Discovery Service on HBase (row = object, column
// = time, cell = content) as ordered composite keys in flat buckets. Nested
// buckets per sensor are larger and no faster.
//
//	meta
//	├── schema          -> schema version, decimal
//	├── instance        -> 16 random bytes, made with the file
//	├── counts          -> sensors, versions, bodies as uvarints
//	└── fleet           -> the planner's fleet record, opaque
//	latest
//	└── sensor          -> time | hash16         the version that is in force
//	versions
//	└── sensor | time   -> version row           one per change
//	bodies
//	└── hash16          -> hash tail | pack(raw body)
//	state
//	└── sensor          -> state row, then the planner's record, opaque
//	visits
//	└── sensor | time   -> pack(visit.Outcome)   the last Options.KeepVisits
//	plans
//	└── time            -> crawl plan, opaque    the last few range starts
//	snapshots                                    made with the first snapshot
//	└── group | time    -> version row | event | parts      one per republication
//	registrations                                made with the first registration
//	└── number          -> Registration, JSON    of endpoints in the resource directory
//
// Key parts:
//
//	sensor   the id with 0x00 written as 00 FF, closed by 00 01: no key part is
//	         a prefix of another one and byte order is the order of ids
//	time     int64 microseconds since 1970, sign flipped, inverted, big endian:
//	         the newest row of a sensor comes first, as wide-row stores want it
//	         that cannot read a row backwards
//	hash16   first 16 bytes of the SHA-256 of the raw body. The other 16 are in
//	         the body row, all 32 in the version row, and both are verified
//
//	number   of a registration, uint64, big endian
//	group    the id of a group, written as a sensor's is
//	event    int64 microseconds, the newest event behind the snapshot
//	parts    what it is made of: kind | id | time | hash of each member's version, or
//	         of its snapshot where the member is a group
//
// A sensor's rows stay when it leaves the fleet, a group's when it is configured
// no more. Later buckets (index, cells, events) go beside these: opening creates no
// bucket and passes over those it does not know, so they come with the schema
// version that first writes them, or, like snapshots and registrations, when they are
// first needed.
//
// # Groups
//
// A group is republished in the transaction that completes its condition: when that
// many of its members have a version in force that is no part of its newest
// snapshot. What a group lacks is thus read off the rows; there is no state beside
// them that a crash could leave behind. A transaction makes at most one snapshot of
// a group, with the newest versions it leaves in force, and a group's snapshots are
// in the order of their times even where the clock was set back. A snapshot's body,
// in link format and stored once by its hash like any other, has the links of all
// members that are described, each absolute (linkformat.Link.Absolute); a description
// in another format is one link to where it was fetched, and a snapshot stands as it
// is in those of the groups it is a member of.
//
// # Durability
//
// One goroutine writes. It takes what is queued, commits it in one transaction
// and only then acknowledges: what is acknowledged has been synced, first the
// pages, then the meta page that makes them reachable. What is not acknowledged
// may or may not be there after a crash, but never in part.
//
// bbolt has checksums on its two meta pages alone, so a flipped byte in a value
// would be served silently. The hash of a body is the missing checksum: it is
// verified at every read, and a body that fails is never served.
package repository
