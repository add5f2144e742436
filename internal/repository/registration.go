package repository

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
)

// Registration is an entry of the resource directory (RFC 9176 section 5): an endpoint that
// registered itself, or that another registered, for a lifetime.
type Registration struct {
	Number   uint64             `json:"-"`           // its location is /rd/<Number>; never given twice
	Endpoint string             `json:"ep"`          // unique together with Sector
	Sector   string             `json:"d,omitempty"` // "" = none
	Base     string             `json:"base"`        // coap://host[:port]
	Explicit bool               `json:"explicit"`    // Base was given, not taken from the source address
	Lifetime time.Duration      `json:"lt"`
	Expires  time.Time          `json:"expires"` // last contact + Lifetime
	Source   string             `json:"source"`  // IP address that registered it
	Attrs    []RegistrationAttr `json:"attrs,omitempty"`
}

// RegistrationAttr is an attribute of the endpoint, such as et.
type RegistrationAttr struct {
	Name, Value string
	HasValue    bool
}

// registrations is a bucket that a file gets with its first registration: number, big
// endian, to a Registration in JSON. The bucket's sequence is the highest number ever given.
var registrations = []byte("registrations")

// PutRegistration stores a registration under its number and, in the same transaction, the
// description that came with it (nil = none). It returns when that is committed.
func (r *Repository) PutRegistration(ctx context.Context, reg Registration, w *Write) error {
	var described *outcomeRow
	if w != nil {
		var err error
		if described, err = r.prepare(*w); err != nil {
			return fmt.Errorf("registration %d: %w", reg.Number, err)
		}
	}
	row, err := json.Marshal(reg)
	if err != nil {
		return fmt.Errorf("registration %d: %w", reg.Number, err)
	}
	return r.wait(ctx, &op{apply: func(t *transaction) error {
		b, err := t.tx.CreateBucketIfNotExists(registrations)
		if err != nil {
			return err
		}
		if reg.Number > b.Sequence() {
			if err := b.SetSequence(reg.Number); err != nil {
				return err
			}
		}
		if err := b.Put(binary.BigEndian.AppendUint64(nil, reg.Number), row); err != nil {
			return err
		}
		if described != nil {
			return described.apply(t)
		}
		return nil
	}})
}

// DropRegistrations removes registrations; numbers that are not there are passed over. What
// their sensors said stays.
func (r *Repository) DropRegistrations(ctx context.Context, numbers ...uint64) error {
	if len(numbers) == 0 {
		return nil
	}
	return r.wait(ctx, &op{apply: func(t *transaction) error {
		b := t.tx.Bucket(registrations)
		if b == nil {
			return nil
		}
		for _, n := range numbers {
			if err := b.Delete(binary.BigEndian.AppendUint64(nil, n)); err != nil {
				return err
			}
		}
		return nil
	}})
}

// Registrations returns all registrations in order of their numbers, expired ones too, and
// the highest number that was ever given. With an error that wraps ErrCorrupt come those
// that can be read.
func (r *Repository) Registrations() (all []Registration, last uint64, err error) {
	err = r.view(func(tx *bbolt.Tx) error {
		b := tx.Bucket(registrations)
		if b == nil {
			return nil
		}
		last = b.Sequence()
		var bad error
		err := b.ForEach(func(key, value []byte) error {
			reg, err := decodeRegistration(key, value)
			if err == nil {
				all = append(all, reg)
			}
			bad = errors.Join(bad, err)
			return nil
		})
		return errors.Join(err, bad)
	})
	return all, last, err
}

func decodeRegistration(key, value []byte) (Registration, error) {
	var reg Registration
	if len(key) != 8 {
		return reg, fmt.Errorf("registrations, key %x: not a number: %w", key, ErrCorrupt)
	}
	if err := json.Unmarshal(value, &reg); err != nil {
		return reg, fmt.Errorf("registrations, key %x: %w: %w", key, err, ErrCorrupt)
	}
	reg.Number = binary.BigEndian.Uint64(key)
	if reg.Endpoint == "" || reg.Base == "" {
		return reg, fmt.Errorf("registrations, key %x: no endpoint or no base: %w", key, ErrCorrupt)
	}
	return reg, nil
}
