// Package epcis reads EPCIS 2.0 documents (GS1, ISO/IEC 19987:2024) in their JSON
// binding, writes objects in one canonical spelling, and computes the event hash of
// CBV 2.0 (section 8.9). What it makes of a document is Event values that no longer
// depend on how the document was written.
//
// It is pure: bytes in, values out.
//
// # What is taken
//
// An EPCISDocument, an EPCISQueryDocument, or one event alone. Events are held against
// section 7.4 of the standard and its JSON schema: what a type must have and may have, and
// the form of every standard field. Fields of an event with a colon in their name are
// extensions: they stay in Event.Raw, count for the hash, and are not looked into. Any other
// unknown field of an event is an error, as in the schema, which knows its own names and
// URIs only: a misspelt optional field would go unseen. Inside readPoint, sensorReport and
// the like the schema lets unknown fields pass, and so does Parse.
//
// Four fields may be absent although the schema wants them, since nothing here depends on
// them: eventTimeZoneOffset, @context, schemaVersion and creationDate.
//
// Prefixes that the @context declares are resolved in identifiers and words. A context by
// reference is not fetched; that of EPCIS is known.
//
// # One spelling
//
// [Canonical] writes GS1 keys as canonical GS1 Digital Links (GS1 Digital Link URI Syntax
// 1.3, section 4.11), from EPC URIs (TDS 2.0, section 6) or from Digital Links of any domain.
//
// # One hash
//
// The hash does not depend on order, white space, spelling of identifiers and words, number
// format, offset of times, eventID, recordTime or errorDeclaration. A range in an EPC list
// counts as the objects that it stands for. testdata/hashes says which published hashes
// agree and where the reading of CBV 2.0 leaves a choice.
package epcis
