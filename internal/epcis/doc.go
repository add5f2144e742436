// Package epcis reads EPCIS 2.0 documents (GS1, ISO/IEC 19987:2024) in their JSON
// binding, writes objects in one canonical spelling, and computes the event hash of
// CBV 2.0 (section 8.9). What it makes of a document is Event values that no longer
// depend on how the document was written.
//
// # What is taken
//
// An EPCISDocument, an EPCISQueryDocument, or one event alone. Events are held against
// section 7.4 of the standard and its JSON schema: what a type must have and may have, and
// the form of every standard field. Field names with a colon are extensions; they stay in
// Event.Raw, count for the hash, and are not looked into. Any other unknown field is an error: the
// schema allows only URIs beside its own names, and a misspelt optional field would go unseen.
// Four things are taken although the schema wants more: eventTimeZoneOffset, @context,
// schemaVersion and creationDate may be absent, since nothing here depends on them being
// there.
//
// # One spelling
//
// [Canonical] writes GS1 keys as canonical GS1 Digital Links (GS1 Digital Link URI Syntax
// 1.3, section 4.11), from EPC URIs (TDS 2.0, section 6) or from Digital Links of any domain.
//
// It is pure: bytes in, values out.
package epcis
