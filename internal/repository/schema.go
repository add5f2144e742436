package repository

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"go.etcd.io/bbolt"
)

// schemaVersion counts changes that an older program would read wrongly.
const schemaVersion = 1

// buckets are those of the tree in the package comment that every file has.
var buckets = [...]string{"meta", "latest", "versions", "bodies", "state", "visits", "plans"}

// checkSchema verifies that the file is crawld's and of this version.
func checkSchema(tx *bbolt.Tx) error {
	meta := tx.Bucket([]byte("meta"))
	if meta == nil || meta.Get([]byte("schema")) == nil {
		return fmt.Errorf("a bbolt file, but not one of crawld: %w", ErrCorrupt)
	}
	text := string(meta.Get([]byte("schema")))
	version, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("schema version %q is no number: %w", text, ErrCorrupt)
	}
	if version != schemaVersion {
		return fmt.Errorf("schema version %d, this program reads and writes %d: %w; use the "+
			"release that wrote it", version, schemaVersion, ErrVersion)
	}
	for _, name := range buckets {
		if tx.Bucket([]byte(name)) == nil {
			return fmt.Errorf("bucket %s is missing: %w", name, ErrCorrupt)
		}
	}
	return nil
}

// create makes a new data file so that after a crash at any point there is
// either none or a whole one: it is written and synced under another name,
// then gets its own, then the directory that holds the name is synced. A hard
// link, unlike a rename, cannot replace a file that another process has made
// meanwhile; where the file system has no hard links it is a rename after all.
// Left-overs of a crash are named .<file>.new-* and are not read.
func create(path string) error {
	dir := filepath.Dir(path)
	temp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".new-*")
	if err != nil {
		return cannotCreate(path, dir, err)
	}
	defer os.Remove(temp.Name())
	if err := errors.Join(temp.Close(), writeSchema(temp.Name())); err != nil {
		return cannotCreate(path, dir, err)
	}
	err = os.Link(temp.Name(), path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return cannotCreate(path, dir, err)
	}
	if err := syncDir(dir); err != nil {
		return cannotCreate(path, dir, err)
	}
	return nil
}

func cannotCreate(path, dir string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cannot create data file %s: there is no directory %s: "+
			"create it or name another data file: %w", path, dir, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot create data file %s: directory %s is not writable for user id %d: %w",
			path, dir, os.Getuid(), err)
	}
	return fmt.Errorf("cannot create data file %s: %w", path, err)
}

// writeSchema fills an empty file. bbolt syncs with every commit, so that the
// file is durable, but for its name, when this returns.
func writeSchema(path string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:      defaultTimeout,
		FreelistType: bbolt.FreelistMapType,
	})
	if err != nil {
		return err
	}
	instance := make([]byte, 16)
	_, _ = rand.Read(instance) // never fails
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		if _, err := tx.CreateBucket([]byte("index")); err != nil {
			return err
		}
		meta := tx.Bucket([]byte("meta"))
		return errors.Join(
			meta.Put([]byte("index"), indexMark{done: true}.encode()),
			meta.Put([]byte("schema"), strconv.AppendInt(nil, schemaVersion, 10)),
			meta.Put([]byte("instance"), instance),
			meta.Put([]byte("counts"), counts{}.encode()))
	})
	return errors.Join(err, db.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
