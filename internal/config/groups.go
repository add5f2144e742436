package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/crawld/crawld/internal/fleet"
)

// Group is a set of sensors and other groups whose newest descriptions are republished as
// one snapshot.
type Group struct {
	ID      string   // 1 .. 64 of a-z A-Z 0-9 . _ -, not . or ..; no sensor has it too
	Members []string // ids of sensors and groups, 1 .. 1000, each once
	AtLeast int      // 1 .. len(Members): members with something new that are needed
	// Spare is how many members are expected to have something new, beyond those that are
	// needed, before any is polled for the group, 0 .. len(Members) - AtLeast; the candidate
	// threshold of the DPT paper, section 6.5.
	Spare int

	place  place   // of the group in the file
	key    string  // groups[i]
	places []place // of the members; nil where they were not read from a file
}

// Equal tells whether two groups are the same, wherever they are written.
func (g Group) Equal(o Group) bool {
	return g.ID == o.ID && g.AtLeast == o.AtLeast && g.Spare == o.Spare &&
		slices.Equal(g.Members, o.Members)
}

const (
	maxGroupID = 64
	maxMembers = 1000

	idLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)

func (v value) place() place { return place{v.d.file, v.node.Line, v.node.Column} }

// groups reads the list and holds its groups against each other. Whether the members are
// sensors is known when the lists have been read: CheckGroups.
func (c *Config) groups(v value) {
	const want = "groups such as {id: house, members: [roof, cellar], at_least: 2}"
	before := v.d.count()
	v.list(want, func(_ int, v value) {
		g := Group{place: v.place(), key: v.key}
		if g.read(v) {
			c.Groups = append(c.Groups, g)
		}
	})
	if v.d.count() > before {
		return
	}
	for i, g := range c.Groups {
		same := func(o Group) bool { return o.ID == g.ID }
		if first := slices.IndexFunc(c.Groups, same); first < i {
			v.d.add(g.place.line, g.place.col, g.key+".id", "%q is the id of %s already; choose another",
				g.ID, c.Groups[first].key)
		}
	}
	if v.d.count() == before {
		c.cycles(v.d)
	}
}

// read takes one group; what it is made of must be there.
func (g *Group) read(v value) bool {
	before := v.d.count()
	var least, spare *value
	v.mapping(fields{
		"id":       g.readID,
		"members":  g.readMembers,
		"at_least": func(v value) { least = &v },
		"spare":    func(v value) { spare = &v },
	})
	switch {
	case v.d.count() > before:
	case g.ID == "" || g.Members == nil:
		v.fail("id or members is missing; expected {id: ..., members: [...], at_least: ...}")
	case least != nil:
		least.integer(&g.AtLeast, 1, len(g.Members))
	default:
		g.AtLeast = len(g.Members)
	}
	if spare != nil && v.d.count() == before {
		spare.integer(&g.Spare, 0, len(g.Members)-g.AtLeast)
	}
	return v.d.count() == before
}

func (g *Group) readID(v value) {
	const want = "letters, digits, dots, dashes and underscores"
	var id string
	if !v.text(&id, "an id of "+want) {
		return
	}
	switch {
	case strings.Trim(id, idLetters) != "" || id == "." || id == "..":
		v.fail("%s stands in addresses of the API; expected %s", clip(id), want)
	case len(id) > maxGroupID:
		v.fail("has %d bytes, more than %d", len(id), maxGroupID)
	default:
		g.ID = id
	}
}

func (g *Group) readMembers(v value) {
	g.Members = []string{}
	isList := v.list("ids of sensors and groups", func(_ int, v value) {
		var id string
		v.label(&id)
		if slices.Contains(g.Members, id) {
			v.fail("%s is a member already; each counts once", clip(id))
		}
		g.Members, g.places = append(g.Members, id), append(g.places, v.place())
	})
	switch n := len(v.node.Content); {
	case isList && n == 0:
		v.fail("is empty; expected ids of sensors and groups")
	case n > maxMembers:
		v.fail("has %d members, more than %d; make groups of groups", n, maxMembers)
	}
}

// cycles reports each group that is a member of itself, over others or at once.
func (c *Config) cycles(d *decoder) {
	byID := map[string]*Group{}
	for i := range c.Groups {
		byID[c.Groups[i].ID] = &c.Groups[i]
	}
	done := map[string]bool{}
	var walk func(g *Group, path []string)
	walk = func(g *Group, path []string) {
		if i := slices.Index(path, g.ID); i >= 0 {
			first := byID[path[i]]
			d.add(first.place.line, first.place.col, first.key+".members",
				"the group is a member of itself: %s; break the chain",
				strings.Join(append(path[i:], g.ID), " > "))
			return
		}
		if done[g.ID] {
			return
		}
		done[g.ID] = true
		for _, id := range g.Members {
			if next := byID[id]; next != nil {
				walk(next, append(slices.Clone(path), g.ID))
			}
		}
	}
	for i := range c.Groups {
		walk(&c.Groups[i], nil)
	}
}

// CheckGroups holds the groups against the sensors that were listed, and those that were
// refused: such a member is never described, the group may do without. The error is of type
// Errors.
func CheckGroups(groups []Group, f *fleet.Fleet, refused []Refusal) error {
	known := map[string]bool{}
	for _, g := range groups {
		known[g.ID] = true
	}
	for _, r := range refused {
		known[r.ID] = true
	}
	var errs Errors
	bad := func(at place, key, format string, args ...any) {
		if len(errs) < maxErrors {
			errs = append(errs, Error{at.file, at.line, at.col, key, fmt.Sprintf(format, args...)})
		}
	}
	for _, g := range groups {
		if _, taken := f.Find(g.ID); taken {
			bad(g.place, g.key+".id", "%q is the id of a sensor; choose another", g.ID)
		}
		for i, id := range g.Members {
			if _, listed := f.Find(id); listed || known[id] {
				continue
			}
			at := g.place
			if g.places != nil {
				at = g.places[i]
			}
			bad(at, fmt.Sprintf("%s.members[%d]", g.key, i), "%q is no sensor of the lists and no group; "+
				"correct it or list the sensor", clip(id))
		}
	}
	if errs == nil {
		return nil
	}
	return errs
}
