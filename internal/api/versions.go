package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/repository"
)

// versionRow is a description that a sensor served.
type versionRow struct {
	At      time.Time `json:"at"` // when it was first seen
	Hash    string    `json:"hash"`
	Size    int       `json:"size"`
	Format  int       `json:"content_format"` // -1: none given
	ETag    []byte    `json:"etag"`           // base64; null: none
	Verdict string    `json:"verdict"`
	Links   int       `json:"links"`
	Damaged bool      `json:"damaged"` // its stored body is, and is not served
}

func newVersionRow(v repository.Version) versionRow {
	return versionRow{At: v.At, Hash: v.Hash, Size: v.Size, Format: v.Format, ETag: v.ETag,
		Verdict: v.Verdict, Links: v.Links, Damaged: v.Damaged}
}

// codeDamaged is the code of answers in place of a body that is in quarantine.
const codeDamaged = "damaged"

type versionList struct {
	Versions []versionRow `json:"versions"` // newest first
	Next     string       `json:"next"`     // goes into before
}

// versions is GET /api/v1/sensors/{id}/versions. History stays when a sensor
// leaves the fleet.
func (s *server) versions(r *http.Request) (any, error) {
	q := parseQuery(r, nil, "id", "before", "limit")
	id, before := q.id(r), q.instant("before")
	limit := q.number("limit", defaultRows, 1, maxRows)
	if q.err != nil {
		return nil, q.err
	}
	rows, err := s.o.Repo.Versions(id, before, limit)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		if err := s.known(r.Context(), id); err != nil {
			return nil, err
		}
	}
	list := versionList{Versions: make([]versionRow, len(rows))}
	for i, v := range rows {
		list.Versions[i] = newVersionRow(v)
	}
	if len(rows) == limit {
		last := rows[limit-1].At
		more, err := s.o.Repo.Versions(id, last, 1)
		if err != nil {
			return nil, err
		}
		if len(more) > 0 {
			list.Next = last.Format(time.RFC3339Nano)
		}
	}
	return list, nil
}

// known tells an id that nobody has heard of from a sensor without history.
func (s *server) known(ctx context.Context, id string) error {
	var found bool
	err := s.ask(ctx, func(p *planner.Planner, _ time.Time) { found = p.Record(id) != nil })
	if err == nil && !found {
		// It may have left the fleet after it was described.
		if _, found, err = s.o.Repo.Latest(id); err == nil && !found {
			return unknownSensor(id)
		}
	}
	return err
}

// body is GET .../body: what the sensor sent, byte for byte.
func (s *server) body(w http.ResponseWriter, r *http.Request) {
	q := parseQuery(r, nil, "id", "hash")
	id, hash := q.id(r), q.hash(r)
	if q.err != nil {
		s.refuse(w, r, q.err)
		return
	}
	v, err := s.version(r.Context(), id, hash)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	s.stored(w, r, v, func() bool {
		latest, described, err := s.o.Repo.Latest(id)
		return err == nil && described && latest.Hash == v.Hash
	})
}

// stored answers with the body of a version. comes tells whether one that is damaged is
// going to be fetched again.
func (s *server) stored(w http.ResponseWriter, r *http.Request, v repository.Version,
	comes func() bool) {
	body, err := s.o.Repo.Body(v.Hash)
	switch {
	case errors.Is(err, repository.ErrHash) && comes():
		s.refuse(w, r, damagedFault(http.StatusServiceUnavailable, v,
			"the sensor is asked for all of it at its next visit"))
	case errors.Is(err, repository.ErrHash):
		s.refuse(w, r, damagedFault(http.StatusGone, v,
			"newer ones have taken its place, so it cannot be fetched again"))
	case errors.Is(err, repository.ErrNotFound):
		s.refuse(w, r, faultf(http.StatusNotFound, "%v", err))
	case err != nil:
		s.refuse(w, r, err)
	default:
		serveBody(w, r, v, body)
	}
}

func damagedFault(status int, v repository.Version, next string) fault {
	return fault{status: status, code: codeDamaged, text: "the stored body of version " + v.Hash +
		" is damaged, so it is not served; " + next}
}

// version finds the sensor's version with that hash, or the one in force where
// hash is empty. A body is only served as a version of its sensor: the same bytes
// may have come with another Content-Format from another one.
func (s *server) version(ctx context.Context, id, hash string) (repository.Version, error) {
	latest, described, err := s.o.Repo.Latest(id)
	if err != nil {
		return repository.Version{}, err
	}
	if !described {
		if err := s.known(ctx, id); err != nil {
			return repository.Version{}, err
		}
		return repository.Version{}, faultf(http.StatusNotFound,
			"sensor %s was never described", clip(id))
	}
	if hash == "" || hash == latest.Hash {
		return latest.Version, nil
	}
	for before := latest.At; ctx.Err() == nil; {
		page, err := s.o.Repo.Versions(id, before, maxRows)
		if err != nil {
			return repository.Version{}, err
		}
		for _, v := range page {
			if v.Hash == hash {
				return v, nil
			}
		}
		if len(page) < maxRows {
			return repository.Version{}, faultf(http.StatusNotFound,
				"sensor %s has no version %s", clip(id), hash)
		}
		before = page[len(page)-1].At
	}
	return repository.Version{}, faultf(http.StatusServiceUnavailable,
		"sensor %s has too many versions to search them in %v", clip(id), patience)
}

// mediaType is the type of a CoAP Content-Format (RFC 7252 section 12.3, RFC
// 8428 section 12.3). Only types that no browser runs or renders as a page are
// told; all else is octets, to be saved.
func mediaType(format int) (name string, known bool) {
	switch format {
	case 0:
		return "text/plain; charset=utf-8", true
	case 40:
		return "application/link-format", true
	case 50:
		return "application/json", true
	case 60:
		return "application/cbor", true
	case 110:
		return "application/senml+json", true
	case 112:
		return "application/senml+cbor", true
	}
	return "application/octet-stream", false
}

func serveBody(w http.ResponseWriter, r *http.Request, v repository.Version, body []byte) {
	name, known := mediaType(v.Format)
	w.Header().Set("Content-Type", name)
	if !known {
		w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", v.Hash[:16]))
	}
	w.Header().Set("ETag", `"`+v.Hash+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}
