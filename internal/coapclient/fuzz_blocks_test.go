package coapclient

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/plgd-dev/go-coap/v3/message/codes"
)

// blockScript reads a sequence of parts out of a fuzzer's bytes, five for each: most are
// the part that would come next, some are not.
type blockScript struct {
	data []byte
	have int // bytes that the parts so far should have brought
}

func (s *blockScript) next() (r response, ok bool) {
	if len(s.data) < 5 {
		return r, false
	}
	kind, szx, more, tag, size := s.data[0], s.data[1]%8, s.data[2]%2 == 0, s.data[3], s.data[4]
	s.data = s.data[5:]
	r = response{header: header{code: codes.Content}, format: 40, hasBlock: kind != 1, size2: -1}
	r.block = block{szx: szx, more: more}
	length := r.block.size()
	if !more {
		length = int(size) % (length + 1)
	}
	if szx < 7 {
		r.block.num = s.have / r.block.size()
	}
	switch kind {
	case 2:
		r.block.num += int(size)
	case 3:
		length = int(size)
	case 4:
		r.format = int(size)
	case 5:
		r.size2 = int64(size) * 64
	}
	switch tag % 16 {
	case 0:
		r.etag = nil
	case 1:
		r.etag = []byte{tag}
	default:
		r.etag = []byte("same")
	}
	r.payload = bytes.Repeat([]byte{tag}, length)
	return r, true
}

// admits is RFC 7959 section 2 for a part that comes after others of which first was the
// first one, and the client's limits.
func admits(first *response, have, parts int, r response, l Limits) bool {
	size := 16 << r.block.szx
	end := have + len(r.payload)
	more := r.hasBlock && r.block.more
	switch {
	case first != nil && (!r.hasBlock || r.format != first.format || !sameTag(r.etag, first.etag)):
		return false
	case r.size2 > int64(l.Body) || end > l.Body || more && end == l.Body:
		return false
	case parts+1 > l.Blocks || more && parts+1 == l.Blocks:
		return false
	case !r.hasBlock:
		return true
	case r.block.szx == 7 || r.block.num*size != have || len(r.payload) > size:
		return false
	}
	return !(more && len(r.payload) < size) && !((more || r.block.num > 0) && size < l.MinBlock)
}

func sameTag(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

// checkBlocks feeds a sequence of parts to a transfer and to its twin.
func checkBlocks(data []byte, l Limits,
	admits func(*response, int, int, response, Limits) bool) error {
	d := &document{format: -1}
	s := &blockScript{data: data}
	var first *response
	var want []byte
	for parts := 0; ; parts++ {
		r, ok := s.next()
		if !ok {
			return nil
		}
		more, f := d.add(&r, l)
		if fine := admits(first, len(want), parts, r, l); fine != (f == nil) {
			return fmt.Errorf("part %d at byte %d: %+v taken %v, want %v", parts, len(want), r.block,
				f == nil, fine)
		}
		if f != nil {
			return nil // the attempt ends
		}
		if first == nil {
			first = &r
		}
		want = append(want, r.payload...)
		s.have = len(want)
		if !bytes.Equal(d.body, want) || len(d.body) > l.Body || cap(d.body) > 2*l.Body+1024 ||
			d.blocks > l.Blocks {
			return fmt.Errorf("part %d: %d bytes of %d, %d blocks, room for %d", parts, len(d.body),
				len(want), d.blocks, cap(d.body))
		}
		if more != (r.hasBlock && r.block.more) {
			return fmt.Errorf("part %d: more %v", parts, more)
		}
		if !more {
			return nil
		}
	}
}

var blockLimits = Limits{Body: 2048, Blocks: 20, MinBlock: 32}

// blockSeeds are whole transfers of two block sizes, one that goes on too long, and one of
// each fault at the second part.
func blockSeeds() (seeds [][]byte) {
	part := func(kind, szx, more, size byte) []byte { return []byte{kind, szx, more, 's', size} }
	for _, szx := range []byte{1, 2, 6} {
		seeds = append(seeds, bytes.Join([][]byte{part(0, szx, 0, 0), part(0, szx, 0, 0),
			part(0, szx, 1, 7)}, nil))
	}
	for kind := range byte(6) {
		seeds = append(seeds, append(part(0, 2, 0, 0), part(kind, 2, 0, 9)...))
	}
	return append(seeds, bytes.Repeat(part(0, 1, 0, 0), 30), bytes.Repeat(part(0, 6, 0, 0), 3),
		append(part(0, 2, 0, 0), 0, 2, 0, 0, 0))
}

// FuzzBlocks runs the block-wise transfer through any sequence of parts: it takes what RFC
// 7959 and the limits allow, keeps what it took in order, and holds no more.
func FuzzBlocks(f *testing.F) {
	for _, seed := range blockSeeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := checkBlocks(data, blockLimits, admits); err != nil {
			t.Error(err)
		}
	})
}

// A twin that admits a block out of its place, or another ETag, differs.
func TestBlockTwinCatches(t *testing.T) {
	seeds := blockSeeds()
	for name, wrong := range map[string]func(*response, int, int, response, Limits) bool{
		"place": func(first *response, have, parts int, r response, l Limits) bool {
			r.block.num = have / r.block.size()
			return admits(first, have, parts, r, l)
		},
		"ETag": func(first *response, have, parts int, r response, l Limits) bool {
			if first != nil {
				r.etag = first.etag
			}
			return admits(first, have, parts, r, l)
		},
	} {
		caught := 0
		for _, seed := range seeds {
			err := checkBlocks(seed, blockLimits, wrong)
			if err != nil && strings.Contains(err.Error(), "taken") {
				caught++
			}
		}
		if caught == 0 {
			t.Errorf("%s: not caught in %d sequences", name, len(seeds))
		}
	}
}
