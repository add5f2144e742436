// Package search is the language in which one looks for what sensors say about
// themselves, and what its words mean: which of a sensor's links an expression finds, and
// under which terms a link is indexed so that it is found without a scan.
//
//	rt=temperature* age<10m state=fresh,due label.site=lab "greenhouse 4"
//
// It is pure: text and links in, answers out.
//
// # Grammar
//
// An expression is terms with white space between them; all of them must hold. Nothing
// but white space is an expression too: it finds everything.
//
//	term      = attribute / sensor / label / state / age / words
//	attribute = ["link."] name ("=" / "!=") value
//	sensor    = "sensor=" value
//	label     = "label." key "=" value
//	state     = "state=" state *("," state)
//	age       = "age<" duration / "age>=" duration
//	words     = text / quoted
//	value     = 1*(any character but white space and DQUOTE) / quoted
//	quoted    = DQUOTE *(any character but DQUOTE and "\" / "\" any character) DQUOTE
//	name      = parmname of RFC 6690 [ "*" ] / "href"
//	key       = 1*(any character but white space, DQUOTE, "=", "<", ">")
//	duration  = [ 1*DIGIT "d" ] followed by what Go reads: 10m, 1h30m, 2d, 1d12h
//
// # Small print
//
// Attribute. linkformat.Match decides (RFC 6690 section 4.1): the value is the attribute's
// whole or any of its space-separated parts, a "*" at the end stands for any rest, quoted
// or not, and one elsewhere for itself. Names have no case, values have. href is the
// target as it was sent. "obs=*" asks for an attribute whatever its value, obs="" for a
// flag. "!=" holds for every link for which "=" does not, so also for one without the
// attribute. title also finds what title* says once decoded (RFC 8187 section 3.2);
// "title*=" asks for it as it was sent. A link attribute that is called as one of the
// other terms is asked for as link.age, link.state, link.sensor.
//
// Words. A word is a run of letters, digits and combining marks of any script; all else
// separates. A word finds links with that word in a title or a decoded title*, whatever
// the case (simple folding: K finds the Kelvin sign, but ß not ss; texts are not
// normalised). With a "*" behind it, it finds words that begin so. Several words in one
// term, as in "greenhouse 4" or room-12, stand next to each other and in that order in
// one title.
//
// Sensor, label. Of the sensor whose description it is: its id and its labels, in whole
// and with case, or with a trailing "*" how they begin. Only one sensor term, each label
// once.
//
// State. Any of those listed, as the daemon tells them.
//
// Age. How long ago the description was last known to be right: fetched, or confirmed.
//
// Terms that are about a sensor alone find all links of its description. A description
// without links is found by these alone.
package search
