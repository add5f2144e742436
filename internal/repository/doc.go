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
//	├── index           -> versions counted when it was written, and how far it is
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
//	cells                                        made with the first version or event
//	└── object | family | time | id16 | seq      -> cell, nothing if seq = 1
//	events                                       made, as all below, with the first event
//	└── forward time | id16 | seq                -> event row
//	eventids
//	└── name8 | forward time [| id8 | seq]       -> nothing: leads to events
//	documents
//	└── hash16          -> hash tail | pack(signed document)
//	names
//	└── number          -> publisher or information service
//	quarantine                                   made with the first damaged body
//	└── hash16          -> the row of bodies as it was found
//	index
//	└── name | value | sensor  -> -              the terms of the versions in force
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
//	hash16   first 16 bytes of the SHA-256 of the raw body, or of the signed document.
//	         The other 16 are in its row, of a body all 32 in the version row, and both
//	         are verified
//
//	number   of a registration, uint64, big endian
//	group    the id of a group, written as a sensor's is
//	object   written as a sensor's id is; a canonical GS1 identifier without its
//	         https://id.gs1.org/, which leaves a digit that no URI begins with
//	family   c what the object contains, d its descriptions, e when it was emptied, l its
//	         births and ends, m its stays by aggregation, n by association, o what else
//	id16     what makes an event the one it is (discovery.Identity); of a description
//	         the hash16 of its body
//	seq      0 the event, 1 the declaration that it is in error
//	name8    first 8 bytes of the SHA-256 of the event ID, of an event that has none of
//	         its CBV hash, and then id16 begins with them and nothing follows the time
//
//	event    int64 microseconds, the newest event behind the snapshot
//	name     of a link's attribute, "href" for its target, "title word" for a word of a
//	value    title, and what it says (search.Term); both written as a sensor's id is
//	parts    what it is made of: kind | id | time | hash of each member's version, or
//	         of its snapshot where the member is a group
//
// A sensor's rows stay when it leaves the fleet, a group's when it is configured
// no more. Opening makes no other bucket than the index and passes over those it does not
// know, so that later ones come with the schema version that first writes them, or, like
// snapshots and registrations, when they are first needed.
//
// # Searches
//
// The index has a row for each term of a version in force and its sensor, however many
// links have the term: a search reads the description anyway, and a row for each link
// would be several times the bytes. The rows of the version before go in the transaction
// that makes the next one. They say where to look and no more: what is found is read from
// a body that has its hash, so a row too many costs time, and only one that is missing
// would cost an answer. Rows are in the order of sensors for each term, so that a search
// for several terms goes through them side by side and a page begins where the last ended.
//
// A file may have been written to by a release that knows no index. It counts versions as
// all do, but does not tell the index so; from that the next one knows that the index is
// behind, and makes it anew.
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
// # Events
//
// An event, its cells in the rows of its objects, its place under its event ID and the
// document that it was signed in are ONE transaction, and so are a new version of a sensor
// and the cell that tells of it. A cell has all that a trace needs, so that a trace reads no
// event; it reads the rows of an object and its containers through one cursor, in one read
// transaction while it is short. Publications of one transaction put their cells in the order
// of the keys. What is the same in thousands of rows, publishers and information services, has a
// number; so have the words of CBV. Events are kept in the order of their times, which fills
// pages where they come in that order; objects' rows have the newest cell first.
//
// A declaration of an error is a record of its own, one for each event and publisher, and
// marks the cells of the event if that is the publisher's, whichever of the two comes first.
//
// Versions of a file from before there were cells get theirs after it is opened, 20 000 in a
// transaction; meta, key described, says where that stands.
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
// verified at every read, and a body that fails is never served: it goes into quarantine,
// and leaves it in the transaction that stores it again.
//
// # Space
//
// Survey judges how much there is, on the disk and of MaxSize. What finds no space is
// refused as a whole (ErrFull), and a ballast kept beside the file gives the outcomes that
// are under way theirs. Nothing is deleted for space.
//
// A write or a sync that fails for another reason ends all writing (ErrBroken) until
// Reopen has closed the file, had the kernel forget what it holds of it, and verified it.
package repository
