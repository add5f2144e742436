package epcis

// property is a field of the canonical order of CBV 2.0, section 8.9.
type property struct {
	key   string // in JSON
	name  string // what the pre-hash string has in its place
	entry string // what each entry of a list has before it
	list  bool
	words *vocabulary // of bare words
	time  bool
	// members of an object, or of each entry of a list; nil for texts and numbers.
	members []property
}

func single(key string) property { return property{key: key, name: key} }

func worded(key string, words *vocabulary) property {
	return property{key: key, name: key, words: words}
}

func instant(key string) property { return property{key: key, name: key, time: true} }

func epcs(key string) property { return property{key: key, name: key, entry: "epc", list: true} }

func object(key string, members ...property) property {
	return property{key: key, name: key, members: members}
}

// objectList has the name of the list once and that of the entry before each.
func objectList(key, name, entry string, members ...property) property {
	return property{key: key, name: name, entry: entry, list: true, members: members}
}

func quantities(key string) property {
	return objectList(key, key, "quantityElement",
		single("epcClass"), single("quantity"), single("uom"))
}

func wordList(key string, words *vocabulary) property {
	return property{key: key, entry: key, list: true, words: words}
}

// canonicalOrder is that of the standard, in the reading that its authors' reference
// implementation and openEPCIS share for ver=CBV2.0: a type goes before what it is the type
// of, sensorElementList has no name of its own, and certificationInfo does not count.
var canonicalOrder = []property{
	instant("eventTime"), single("eventTimeZoneOffset"),
	epcs("epcList"), single("parentID"), epcs("inputEPCList"), epcs("childEPCs"),
	quantities("quantityList"), quantities("childQuantityList"), quantities("inputQuantityList"),
	epcs("outputEPCList"), quantities("outputQuantityList"),
	single("action"), single("transformationID"),
	worded("bizStep", bizSteps), worded("disposition", dispositions),
	object("persistentDisposition", wordList("set", dispositions), wordList("unset", dispositions)),
	object("readPoint", single("id")), object("bizLocation", single("id")),
	objectList("bizTransactionList", "bizTransactionList", "",
		worded("type", transactionTypes), single("bizTransaction")),
	objectList("sourceList", "sourceList", "", worded("type", partyTypes), single("source")),
	objectList("destinationList", "destinationList", "",
		worded("type", partyTypes), single("destination")),
	objectList("sensorElementList", "", "sensorElement",
		object("sensorMetadata", instant("time"), instant("startTime"), instant("endTime"),
			single("deviceID"), single("deviceMetadata"), single("rawData"),
			single("dataProcessingMethod"), single("bizRules")),
		objectList("sensorReport", "", "sensorReport",
			worded("type", measurements), worded("exception", exceptions), single("deviceID"),
			single("deviceMetadata"), single("rawData"), single("dataProcessingMethod"),
			instant("time"), single("microorganism"), single("chemicalSubstance"),
			single("value"), worded("component", components), single("stringValue"),
			single("booleanValue"), single("hexBinaryValue"), single("uriValue"),
			single("minValue"), single("maxValue"), single("meanValue"), single("sDev"),
			single("percRank"), single("percValue"), single("uom"),
			single("coordinateReferenceSystem"))),
}
