package repository

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
)

// Group says whose newest descriptions are republished as one snapshot, and when: as soon
// as AtLeast members have one that the group's last snapshot does not have (the
// republishing condition of multi-source Data Publication Tracking, DPT paper section 6.5).
type Group struct {
	ID      string
	Members []Member
	AtLeast int // 1 .. len(Members)
}

// Member is a sensor or, with Group set, another group, whose newest snapshot stands for a
// description.
type Member struct {
	ID    string
	Group bool
	URI   string // of a sensor, absolute: what the links of its description start from
}

// Part is a member's description in a snapshot.
type Part struct {
	ID    string
	Group bool
	At    time.Time // of the version, or of the member's snapshot
	Hash  string    // hex SHA-256 of its body
}

// Snapshot is a version of a group: At is when it was made, Sensor the group's id. Its body
// is in link format, Links counts what is in it.
type Snapshot struct {
	Version
	// Event is the newest event behind what made it: when the description that completed
	// the condition was published if it tells, else when it was fetched. Zero: the groups
	// were changed.
	Event time.Time
	Parts []Part // in the order of the members
}

// Republication is a snapshot that has been committed, or with Err why there is none
// although the condition holds.
type Republication struct {
	Snapshot
	Err error
}

// MemberStatus is a member with its newest description.
type MemberStatus struct {
	Member
	Described bool
	At        time.Time // of that version or snapshot
	Hash      string    // hex SHA-256 of its body
	New       bool      // the group's last snapshot does not have it
}

// GroupStatus is what a group stands at.
type GroupStatus struct {
	ID      string
	AtLeast int
	Members []MemberStatus
	New     int       // members that are new
	Last    *Snapshot // nil: none yet
}

// grouping is a set of groups, checked and indexed; it is not changed once made.
type grouping struct {
	groups []Group // as given
	order  []int   // indices, members before the groups they are in
	of     map[memberKey][]int
}

type memberKey struct {
	group bool
	id    string
}

func newGrouping(groups []Group) (*grouping, error) {
	g := &grouping{of: map[memberKey][]int{}}
	byID := map[string]int{}
	for i, group := range groups {
		if err := checkSensor(group.ID); err != nil {
			return nil, fmt.Errorf("group %q: %w", group.ID, err)
		}
		if _, twice := byID[group.ID]; twice {
			return nil, fmt.Errorf("group %q: given twice", group.ID)
		}
		if n := len(group.Members); group.AtLeast < 1 || group.AtLeast > n {
			return nil, fmt.Errorf("group %q: at least %d of %d members", group.ID, group.AtLeast, n)
		}
		byID[group.ID] = i
		group.Members = slices.Clone(group.Members)
		for j := range group.Members {
			m := &group.Members[j]
			m.URI = withoutZone(m.URI)
			g.of[memberKey{m.Group, m.ID}] = append(g.of[memberKey{m.Group, m.ID}], i)
		}
		g.groups = append(g.groups, group)
	}
	return g, g.sort(byID)
}

// sort puts groups behind those that are their members.
func (g *grouping) sort(byID map[string]int) error {
	const open, done = 1, 2
	mark := make([]int, len(g.groups))
	var visit func(i int) error
	visit = func(i int) error {
		switch mark[i] {
		case open:
			return fmt.Errorf("group %q: is a member of itself", g.groups[i].ID)
		case done:
			return nil
		}
		mark[i] = open
		for _, m := range g.groups[i].Members {
			if j, known := byID[m.ID]; known && m.Group {
				if err := visit(j); err != nil {
					return err
				}
			}
		}
		mark[i] = done
		g.order = append(g.order, i)
		return nil
	}
	for i := range g.groups {
		if err := visit(i); err != nil {
			return err
		}
	}
	return nil
}

// withoutZone drops the zone of an IPv6 address: it names an interface of this host, so it
// must not leave it (RFC 6874 section 1), and link format cannot hold it.
func withoutZone(uri string) string {
	head, rest, zoned := strings.Cut(uri, "%")
	_, tail, closed := strings.Cut(rest, "]")
	if zoned && closed && strings.Contains(head, "://[") && !strings.Contains(head, "]") {
		return head + "]" + tail
	}
	return uri
}

// SetGroups replaces the groups, and makes the snapshots whose condition holds at once, now
// being their instant. Both or, with an error, neither. What groups that are gone have
// stored stays.
func (r *Repository) SetGroups(ctx context.Context, groups []Group, now time.Time) error {
	g, err := newGrouping(groups)
	if err != nil {
		return r.named(err)
	}
	return r.wait(ctx, &op{apply: func(t *transaction) error {
		t.groups = g
		clear(t.due)
		for i := range g.groups {
			t.due[i] = occasion{at: now.UnixMicro(), event: never}
		}
		return nil
	}})
}

// Groups are those in force. They must not be changed.
func (r *Repository) Groups() []Group { return r.groups.Load().groups }

// Group tells what a group in force stands at; false if there is none of that id.
func (r *Repository) Group(id string) (status GroupStatus, ok bool, err error) {
	all := r.groups.Load().groups
	i := slices.IndexFunc(all, func(g Group) bool { return g.ID == id })
	if i < 0 {
		return status, false, nil
	}
	status.ID, status.AtLeast = id, all[i].AtLeast
	err = r.view(func(tx *bbolt.Tx) error {
		s := shelf{codec: r.codec, tx: tx}
		last, found, err := s.newest(id)
		if err != nil {
			return err
		}
		if found {
			status.Last = &last
		}
		status.Members = s.members(all[i], last.Parts)
		status.New = fresh(status.Members)
		return nil
	})
	return status, true, err
}

// Snapshots returns a group's snapshots from before an instant (zero = all), newest first,
// at most limit (1 .. 1000; else 1000) of them. The next page begins before the last one's
// At.
func (r *Repository) Snapshots(group string, before time.Time, limit int) ([]Snapshot, error) {
	var list []Snapshot
	err := r.page("snapshots", group, before, limit, func(at time.Time, value []byte) error {
		s, err := decodeSnapshot(group, at, value)
		s.Damaged = r.Damaged(s.Hash)
		list = append(list, s)
		return err
	})
	return list, err
}
