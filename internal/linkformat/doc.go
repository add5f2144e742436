// Package linkformat reads and writes the CoRE Link Format (RFC 6690): what a
// sensor answers to a GET of /.well-known/core.
//
// # Grammar
//
// In short, with the typed alternatives of link-param left out (they are all
// instances of link-extension; see Warnings):
//
//	link-value-list = [ link-value *( "," link-value ) ]
//	link-value      = "<" URI-Reference ">" *( ";" link-extension )
//	link-extension  = parmname [ "=" ( ptoken / quoted-string ) ]
//	                / parmname "*" "=" ext-value
//	parmname        = 1*attr-char
//	attr-char       = ALPHA / DIGIT / one of ! # $ & + - . ^ _ ` | ~
//	ptoken          = 1*( any visible ASCII but DQUOTE "," ";" and "\" )
//	quoted-string   = DQUOTE *( qdtext / quoted-pair ) DQUOTE
//	qdtext          = UTF-8 without controls, DQUOTE and "\" / HTAB
//	                / CR LF ( SP / HTAB )
//	quoted-pair     = "\" any ASCII
//
// So "," and ";" may stand inside <...> and quotes, <> and the empty body are
// valid, and a single quote is a character like any other. No white space is
// allowed around separators, unlike in the HTTP Link header of RFC 8288.
//
// # Two layers
//
// Parse first holds a body against the ABNF of RFC 6690 section 2, with
// URI-Reference from RFC 3986, quoted-string from RFC 2616 (whose backslash
// always begins a quoted-pair, as RFC 7230 made explicit) and parmname and
// ext-value from RFC 5987. A body that fits is Valid. One that does not is read
// again by a forgiving grammar; if that succeeds it is Recovered, and every
// liberty taken is reported by the letter of its rule and the byte where it was
// taken. Anything else is Invalid. The body itself is never altered.
//
// The rules of recovery:
//
//	W  blanks or newlines around separators, "=" and the document
//	E  empty members, empty parameters, a trailing "," or ";"
//	S  ";" or a newline where "," should separate two links
//	A  the ";" between ">" and the first parameter is missing
//	U  raw UTF-8 in a target (an IRI, RFC 3987, instead of a URI)
//	Q  illegal characters in an unquoted value
//	B  a byte order mark or NUL bytes around separators and the document
//
// A rule is reported once for each gap between two tokens, however long the
// gap. Where two rules would explain a fault, the one that keeps the text as
// part of the document wins: a newline before "<" is S, not W and an error.
// An unquoted value runs, under Q, to the next "," ";" or line end, so that
// title=Room 1 keeps both words; blanks at its end are W.
//
// Not recovered, because there is no telling what was meant: HTML and JSON,
// invalid UTF-8, an unterminated quoted-string (a body cut after a block), bad
// percent-encoding, blanks inside a target, a parameter that belongs to no
// link, "name=" with no value, and links with only blanks or nothing between
// them. SyntaxError says where.
//
// # Warnings
//
// Every attribute is grammatical as a link-extension, so the typed forms of the
// ABNF do not decide the verdict. In a valid body their violations are warnings,
// at most one per attribute and rule:
//
//	rel-registered, rev-registered,   not reg-rel-type or URI, or a badly
//	rt-registered, if-registered      spaced list of them (RFC 6690 section 2)
//	anchor-uri                        not a quoted URI-Reference
//	hreflang-tag                      not an unquoted Language-Tag
//	media-value                       no value
//	title-quoted                      not a quoted-string
//	type-media                        not type "/" subtype
//	sz-decimal                        not an unquoted cardinal
//	ct-decimal                        not a cardinal or a quoted list of them
//	                                  (RFC 7252 section 7.2.1)
//	obs-flag, osc-flag                has a value (RFC 7641 section 6, RFC 8613
//	                                  section 9)
//	one-NAME                          NAME appears again in one link, for rel,
//	                                  rt, if, sz, ct, obs, osc, media, title,
//	                                  title* and type (RFC 8288 section 3, RFC
//	                                  6690 section 3, and the RFCs above)
//
// # Hostile bodies
//
// Both grammars are read left to right without backtracking, so the work is
// linear in the length of the body. A body over one of the limits MaxLinks,
// MaxAttrs, MaxValue is Invalid with an error that names the limit; no links
// are returned, rather than a part that looks like the whole.
package linkformat
