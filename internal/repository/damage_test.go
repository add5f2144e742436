package repository

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// damage applies edits of 5 bytes each to a file: where (3), how (1), with what
// (1). Checksums of the meta pages can be made right again, so that damage gets
// past them.
func damage(file, edits []byte) []byte {
	file = append([]byte(nil), file...)
	for ; len(edits) >= 5 && len(file) > 0; edits = edits[5:] {
		at := int(edits[0])<<16 | int(edits[1])<<8 | int(edits[2])
		at %= len(file)
		switch with := edits[4]; edits[3] % 6 {
		case 0:
			file[at] = with
		case 1:
			file[at] ^= 1 << (with % 8)
		case 2:
			file = file[:at]
		case 3: // one page over another
			page := os.Getpagesize()
			from := int(with) * page % len(file)
			copy(file[at/page*page:], file[from:min(from+page, len(file))])
		case 4:
			clear(file[at:min(at+1<<(with%16), len(file))])
		case 5:
			for _, meta := range []int{0, os.Getpagesize()} {
				if meta+headerLen+metaLen <= len(file) {
					m := file[meta+headerLen:]
					sum := fnv.New64a()
					sum.Write(m[:metaLen-8])
					order.PutUint64(m[metaLen-8:], sum.Sum64())
				}
			}
		}
	}
	return file
}

// survive opens a damaged file and asks it everything. Nothing may crash or
// hang, a body that is served must be the one asked for, one that is not must be in
// quarantine, and after a store that succeeded the file must still open.
func survive(t testing.TB, path string, file []byte) (opened bool, quarantined int) {
	t.Helper()
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := Check(path, Options{})
	sound := err == nil && len(report.Problems) == 0
	r, err := Open(path, Options{MaxSize: 1 << 22})
	if err != nil {
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) || sound {
			t.Errorf("open: %v (found sound: %v)", err, sound)
		}
		return false, 0
	}
	for _, id := range []string{"a", "b"} {
		_, _, _ = r.Latest(id)
		_, _ = r.Visits(id, 0)
		versions, _ := r.Versions(id, time.Time{}, 0)
		for _, v := range versions {
			body, err := r.Body(v.Hash)
			if err == nil && hashOf(string(body)) != v.Hash {
				t.Errorf("served a body that is not %s", v.Hash)
			}
			if err != nil && sound {
				t.Errorf("found sound, but body: %v", err)
			}
			if errors.Is(err, ErrHash) && !r.Damaged(v.Hash) {
				t.Errorf("%s is damaged, but not in quarantine", v.Hash)
			}
		}
	}
	_ = r.States(func(string, []byte) error { return nil })
	_, _ = r.Fleet()
	_, _, _, _ = r.Plan()
	quarantined = r.Stats().Quarantined
	stored := r.Store(t.Context(), described("a", "</after>", epoch.Add(time.Hour)))
	if sound && stored != nil {
		t.Errorf("found sound, but store: %v", stored)
	}
	if stored == nil {
		if body, err := r.Body(hashOf("</after>")); err != nil || string(body) != "</after>" {
			t.Errorf("stored, but %q, %v", body, err)
		}
	}
	_ = r.Close()
	if report, err := Check(path, Options{}); sound && (err != nil || len(report.Problems) > 0) {
		t.Errorf("was sound, after a store: %v %v", report.Problems, err)
	}
	return true, quarantined
}

// One byte flipped, a page of zeros, a file cut: each alone, the pages all of them.
func TestOneDamage(t *testing.T) {
	t.Parallel()
	path, file := sample(t)
	rnd := rand.New(rand.NewPCG(13, 1))
	page := os.Getpagesize()
	kinds := []struct {
		name string
		n    int
		make func(i int) []byte
	}{
		{"flips", rounds(300, 2000), func(int) []byte {
			bad, at := bytes.Clone(file), 0
			for bad[at] == 0 { // most of the file is empty
				at = rnd.IntN(len(bad))
			}
			bad[at] ^= 1 << rnd.IntN(8)
			return bad
		}},
		{"bytes of bodies", rounds(100, 500), func(int) []byte {
			body := []byte("</c>") // stored as it is: too short to pack
			other := bytes.Clone(body)
			other[rnd.IntN(len(body))] ^= 1 << rnd.IntN(8)
			return bytes.ReplaceAll(file, body, other) // on pages that are free, too
		}},
		{"pages of zeros", len(file) / page, func(i int) []byte {
			bad := bytes.Clone(file)
			clear(bad[i*page:][:page])
			return bad
		}},
		{"cuts", rounds(100, 500), func(int) []byte { return file[:rnd.IntN(len(file))] }},
	}
	for _, k := range kinds {
		refused, quarantined := 0, 0
		for i := range k.n {
			opened, n := survive(t, path, k.make(i))
			if !opened {
				refused++
			}
			quarantined += n
			if t.Failed() {
				t.Fatalf("%s, %d", k.name, i)
			}
		}
		t.Logf("%d %s: %d refused, %d bodies in quarantine, none served wrong", k.n, k.name, refused,
			quarantined)
		switch k.name {
		case "bytes of bodies":
			if quarantined < k.n/2 {
				t.Errorf("only %d of %d damaged bodies in quarantine", quarantined, k.n)
			}
		default:
			if refused == 0 {
				t.Errorf("%s: none was refused", k.name)
			}
		}
	}
}

func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	_, file := sample(t)
	rnd := rand.New(rand.NewPCG(13, 13))
	path := dataFile(t)
	refused, n := 0, rounds(400, 5000)
	for range n {
		edits := make([]byte, 5*(1+rnd.IntN(3)))
		for i := range edits {
			edits[i] = byte(rnd.Uint32())
		}
		for i := 0; i < len(edits); i += 5 {
			// A sample fills few pages: most edits go where something is.
			edits[i], edits[i+1] = 0, byte(rnd.IntN(len(file)>>8))
		}
		if opened, _ := survive(t, path, damage(file, edits)); !opened {
			refused++
		}
		if t.Failed() {
			t.Fatalf("edits %x", edits)
		}
	}
	t.Logf("%d damaged files: %d refused, %d opened, none crashed", n, refused, n-refused)
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte{})
	for at := 0; at < 40; at++ {
		f.Add([]byte{0, 0, byte(16 + at), 1, byte(at), 0, 0, 0, 5, 0})
		f.Add([]byte{0, byte(32 + at), 8, 0, 1})
	}
	_, file := sample(f)
	f.Fuzz(func(t *testing.T, edits []byte) {
		survive(t, dataFile(t), damage(file, edits))
	})
}

// TestBranchPages verifies trees that are more than one page deep: with the
// shallow walk of large files, and that both walks find what one page of it
// damaged can do. The control is the undamaged file.
func TestBranchPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "crawld.db")
	r, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	sensors := map[string][]byte{}
	for i := range 3000 {
		sensors[fmt.Sprintf("%06d", i)] = []byte(strings.Repeat("r", 100))
	}
	if err := errors.Join(r.Save(t.Context(), nil, nil, sensors), r.Close()); err != nil {
		t.Fatal(err)
	}
	sound(t, path)
	file, page := readFile(t, path), os.Getpagesize()
	l := layoutOf(t, file)
	for _, deep := range []bool{false, true} {
		if err := l.verify(deep); err != nil {
			t.Errorf("deep %v: %v", deep, err)
		}
	}
	branches := 0
	for at := 2 * page; at < int(l.high)*page; at += page {
		if p := file[at:]; order.Uint16(p[8:]) != flagBranch || order.Uint64(p) == 0 {
			continue
		}
		branches++
		bad := append([]byte(nil), file...)
		// The second child becomes the page itself: a walk without end.
		order.PutUint64(bad[at+headerLen+elementLen+8:], uint64(at/page))
		for _, deep := range []bool{false, true} {
			if err := layoutOf(t, bad).verify(deep); !errors.Is(err, ErrCorrupt) {
				t.Errorf("page %d points to itself, deep %v: got %v", at/page, deep, err)
			}
		}
	}
	if branches == 0 {
		t.Error("the file has no branch page")
	}
	swapKeys(t, file)
}

// Keys that changed places are found in branches by both walks, in leaves by the deep one.
func swapKeys(t *testing.T, file []byte) {
	t.Helper()
	page, found := os.Getpagesize(), map[uint16]int{}
	for at := 2 * page; at < len(file); at += page {
		flags := order.Uint16(file[at+8:])
		if flags != flagBranch && flags != flagLeaf || order.Uint16(file[at+10:]) < 3 {
			continue
		}
		bad := bytes.Clone(file)
		key := func(i int) []byte {
			from := at + headerLen + i*elementLen
			e := bad[from:]
			if flags == flagLeaf {
				e = e[4:]
			}
			from += int(order.Uint32(e))
			return bad[from : from+int(order.Uint32(e[4:]))]
		}
		first, second := key(1), key(2)
		if len(first) != len(second) {
			continue
		}
		was := bytes.Clone(first)
		copy(first, second)
		copy(second, was)
		found[flags]++
		for _, deep := range []bool{false, true} {
			err := layoutOf(t, bad).verify(deep)
			if deep || flags == flagBranch {
				if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "out of order") {
					t.Errorf("keys of page %d changed places, deep %v: got %v", at/page, deep, err)
				}
			}
		}
	}
	if found[flagBranch] == 0 || found[flagLeaf] == 0 {
		t.Errorf("pages with keys of one length: %v", found)
	}
}

func layoutOf(t *testing.T, file []byte) *layout {
	t.Helper()
	size := func() (int64, error) { return int64(len(file)), nil }
	l, err := readLayout(bytes.NewReader(file), size)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
