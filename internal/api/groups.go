package api

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/crawld/crawld/internal/repository"
)

// snapshotRow is a version of a group: the combined descriptions of its members.
type snapshotRow struct {
	versionRow
	Parts   int        `json:"parts"`           // members in it
	Event   *time.Time `json:"event"`           // the newest one in it; null: the groups were changed
	Latency *float64   `json:"latency_seconds"` // of the snapshot after that event
}

func newSnapshotRow(s repository.Snapshot) snapshotRow {
	row := snapshotRow{versionRow: newVersionRow(s.Version), Parts: len(s.Parts)}
	if !s.Event.IsZero() {
		latency := s.At.Sub(s.Event).Seconds()
		row.Event, row.Latency = &s.Event, &latency
	}
	return row
}

// groupRow is a group in a list.
type groupRow struct {
	ID          string       `json:"id"`
	AtLeast     int          `json:"at_least"`
	MemberCount int          `json:"member_count"`
	Latest      *snapshotRow `json:"latest"` // null: never republished
}

type groupList struct {
	Groups []groupRow `json:"groups"` // by id
	Next   string     `json:"next"`   // id that the next page begins with
}

// groupDetail is a group with what its members stand at.
type groupDetail struct {
	ID      string         `json:"id"`
	AtLeast int            `json:"at_least"`
	New     int            `json:"new"` // members with something that the latest snapshot lacks
	Members []memberDetail `json:"members"`
	Latest  *groupLatest   `json:"latest"` // null: never republished
}

type memberDetail struct {
	ID   string     `json:"id"`
	Kind string     `json:"kind"` // sensor or group
	New  bool       `json:"new"`
	At   *time.Time `json:"at"`   // of its newest description; null: there is none
	Hash string     `json:"hash"` // empty: there is none
}

type groupLatest struct {
	snapshotRow
	Made []partDetail `json:"made_of"`
}

type partDetail struct {
	ID   string    `json:"id"`
	Kind string    `json:"kind"`
	At   time.Time `json:"at"`
	Hash string    `json:"hash"`
}

func memberKind(group bool) string {
	if group {
		return "group"
	}
	return "sensor"
}

// groups is GET /api/v1/groups.
func (s *server) groups(r *http.Request) (any, error) {
	q := parseQuery(r, nil, "from", "limit")
	from, limit := q.values.Get("from"), q.number("limit", defaultRows, 1, maxRows)
	if q.err != nil {
		return nil, q.err
	}
	all := slices.Clone(s.o.Repo.Groups())
	slices.SortFunc(all, func(a, b repository.Group) int { return strings.Compare(a.ID, b.ID) })
	list := groupList{Groups: []groupRow{}}
	for _, g := range all {
		if g.ID < from {
			continue
		}
		if len(list.Groups) == limit {
			list.Next = g.ID
			break
		}
		row := groupRow{ID: g.ID, AtLeast: g.AtLeast, MemberCount: len(g.Members)}
		last, err := s.o.Repo.Snapshots(g.ID, time.Time{}, 1)
		if err != nil {
			return nil, err
		}
		if len(last) > 0 {
			latest := newSnapshotRow(last[0])
			row.Latest = &latest
		}
		list.Groups = append(list.Groups, row)
	}
	return list, nil
}

// group is GET /api/v1/groups/{id}.
func (s *server) group(r *http.Request) (any, error) {
	q := parseQuery(r, nil)
	id := q.id(r)
	if q.err != nil {
		return nil, q.err
	}
	status, ok, err := s.o.Repo.Group(id)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, unknownGroup(id)
	}
	d := groupDetail{ID: id, AtLeast: status.AtLeast, New: status.New, Members: []memberDetail{}}
	for _, m := range status.Members {
		row := memberDetail{ID: m.ID, Kind: memberKind(m.Group), New: m.New, Hash: m.Hash}
		if m.Described {
			row.At = &m.At
		}
		d.Members = append(d.Members, row)
	}
	if status.Last != nil {
		d.Latest = &groupLatest{snapshotRow: newSnapshotRow(*status.Last), Made: []partDetail{}}
		for _, p := range status.Last.Parts {
			d.Latest.Made = append(d.Latest.Made, partDetail{p.ID, memberKind(p.Group), p.At, p.Hash})
		}
	}
	return d, nil
}

type snapshotList struct {
	Versions []snapshotRow `json:"versions"` // newest first
	Next     string        `json:"next"`     // goes into before
}

// snapshots is GET /api/v1/groups/{id}/versions. History stays when a group is configured no
// more.
func (s *server) snapshots(r *http.Request) (any, error) {
	q := parseQuery(r, nil, "before", "limit")
	id, before := q.id(r), q.instant("before")
	limit := q.number("limit", defaultRows, 1, maxRows)
	if q.err != nil {
		return nil, q.err
	}
	rows, err := s.o.Repo.Snapshots(id, before, limit)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		if _, err := s.newestSnapshot(id); err != nil && !errors.Is(err, errNoSnapshot) {
			return nil, err
		}
	}
	list := snapshotList{Versions: []snapshotRow{}}
	for _, row := range rows {
		list.Versions = append(list.Versions, newSnapshotRow(row))
	}
	if len(rows) == limit {
		last := rows[limit-1].At
		more, err := s.o.Repo.Snapshots(id, last, 1)
		if err != nil {
			return nil, err
		}
		if len(more) > 0 {
			list.Next = last.Format(time.RFC3339Nano)
		}
	}
	return list, nil
}

// errNoSnapshot is of a group that is configured and was never republished.
var errNoSnapshot = faultf(http.StatusNotFound, "the group was never republished")

// newestSnapshot tells a group without history from an id that nobody has heard of.
func (s *server) newestSnapshot(id string) (repository.Snapshot, error) {
	last, err := s.o.Repo.Snapshots(id, time.Time{}, 1)
	switch {
	case err != nil:
		return repository.Snapshot{}, err
	case len(last) > 0:
		return last[0], nil
	}
	same := func(g repository.Group) bool { return g.ID == id }
	if slices.ContainsFunc(s.o.Repo.Groups(), same) {
		return repository.Snapshot{}, errNoSnapshot
	}
	return repository.Snapshot{}, unknownGroup(id)
}

// groupBody is GET .../body of a group: the newest snapshot, or the one with that hash.
func (s *server) groupBody(w http.ResponseWriter, r *http.Request) {
	q := parseQuery(r, nil)
	id, hash := q.id(r), q.hash(r)
	if q.err != nil {
		s.refuse(w, r, q.err)
		return
	}
	v, err := s.newestSnapshot(id)
	if err == nil && hash != "" && v.Hash != hash {
		v, err = s.olderSnapshot(r, id, hash, v.At)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	s.stored(w, r, v.Version, func() bool { return false })
}

// olderSnapshot finds the newest snapshot with that hash from before an instant.
func (s *server) olderSnapshot(r *http.Request, id, hash string, before time.Time) (
	repository.Snapshot, error) {
	for r.Context().Err() == nil {
		page, err := s.o.Repo.Snapshots(id, before, 100)
		if err != nil {
			return repository.Snapshot{}, err
		}
		for _, v := range page {
			if v.Hash == hash {
				return v, nil
			}
			before = v.At
		}
		if len(page) == 0 {
			return repository.Snapshot{}, faultf(http.StatusNotFound, "group %s has no version %s",
				clip(id), hash)
		}
	}
	return repository.Snapshot{}, faultf(http.StatusServiceUnavailable,
		"group %s has too many versions to search them in %v", clip(id), patience)
}

func unknownGroup(id string) error {
	return faultf(http.StatusNotFound, "there is no group %s; GET /api/v1/groups lists them", clip(id))
}
