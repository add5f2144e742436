// Package config turns what an operator wrote into domain types: the daemon's
// own file (crawld.yaml) into a Config, and lists of sensors into a
// fleet.Fleet.
//
// A file is validated once, here, and completely: whatever comes out can be
// trusted by the rest of the daemon. Whatever is wrong comes back as Errors,
// one line each, with file, line, column, key, what is wrong and what to do;
// all problems of a file at once, because people correct a file in one go.
//
// YAML (and JSON, read as YAML) is walked as a tree of nodes instead of being
// decoded into structs: only the nodes know their line and column. Each
// mapping is a table from key to the function that reads its value, see
// fields. Unknown and repeated keys, aliases, tags, a second document and an
// empty file are errors.
//
// Sensors with a transport that crawld does not speak (coap+ws, coaps+ws) are
// not errors: they come back as Refusals and the rest of the list loads.
package config
