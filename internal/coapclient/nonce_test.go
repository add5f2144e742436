package coapclient

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/sessionfile"
	"github.com/crawld/crawld/internal/testbed"
)

// tap stands between clients and a sensor and notes each record that goes to it under a
// Connection ID: the ID, epoch and number, which make the nonce, and the bytes.
type tap struct {
	front *net.UDPConn
	done  sync.WaitGroup

	mu      sync.Mutex
	records map[string]string // nonce -> record
	twice   int               // nonces under which different records went
}

func newTap(t *testing.T, sensor *testbed.Sensor) *tap {
	t.Helper()
	front, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{front: front, records: map[string]string{}}
	backs := map[string]*net.UDPConn{}
	p.done.Go(func() {
		b := make([]byte, 4096)
		for {
			n, from, err := front.ReadFromUDPAddrPort(b)
			if err != nil {
				break
			}
			p.note(b[:n])
			back := backs[from.String()]
			if back == nil {
				if back, err = net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(sensor.Addr())); err != nil {
					break
				}
				backs[from.String()] = back
				p.done.Go(func() {
					b := make([]byte, 4096)
					for {
						n, err := back.Read(b)
						if err != nil {
							return
						}
						_, _ = front.WriteToUDPAddrPort(b[:n], from)
					}
				})
			}
			_, _ = back.Write(b[:n])
		}
		for _, back := range backs {
			_ = back.Close()
		}
	})
	t.Cleanup(func() {
		_ = front.Close()
		p.done.Wait()
	})
	return p
}

// note reads the first record of a datagram; those under a Connection ID come alone.
func (p *tap) note(b []byte) {
	const idBytes = 4 // of the testbed's sensors
	if !isRecord(b, contentConnectionID) || len(b) < recordHeader+idBytes {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	nonce := fmt.Sprintf("%x", b[3:11+idBytes]) // epoch, number, Connection ID
	if before, known := p.records[nonce]; known && before != string(b) {
		p.twice++
	}
	p.records[nonce] = string(b)
}

// nonces makes visits, each by a client of its own as after a crash of the daemon: nothing is
// closed, the file is opened again as the kernel has it. Some visits are cut short. restore
// says after which visits an old copy of the file is put in its place.
func nonces(t *testing.T, visits int, restore func(visit int) bool) (records, twice, resumed int) {
	s := secureSensor(t, testbed.Security{Keys: map[string][]byte{"crawld": theKey},
		ConnectionID: true}, func(s *testbed.Spec) { s.Size, s.Block = 1000, 256 })
	p := newTap(t, s)
	path := filepath.Join(t.TempDir(), "sessions")
	uri := strings.Replace(s.URI(), s.Addr().String(), p.front.LocalAddr().String(), 1)
	var old []byte
	for i := range visits {
		sessions, _, err := sessionfile.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer sessions.Close()
		c := newClient(t, Options{Credentials: []Credential{pskCredential()}, Sessions: sessions})
		v := visitTo(uri)
		v.Sensor, v.Credential, v.AckTimeout = "s", "psk", 50*time.Millisecond
		v.Retrans = 1
		ctx, cancel := context.WithCancel(context.Background())
		if i%4 == 3 { // cut short at some record
			before := c.Stats().Sent
			go func() {
				for c.Stats().Sent == before && ctx.Err() == nil {
					runtime.Gosched()
				}
				cancel()
			}()
		}
		c.Fetch(ctx, v)
		cancel()
		resumed += int(c.Stats().Resumed)
		if restore(i) && old != nil {
			if err := os.WriteFile(path, old, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if old, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.records), p.twice, resumed
}

// TestNoNonceTwice: whatever becomes of visits, no two different records go out under one
// nonce (RFC 6655 section 3).
func TestNoNonceTwice(t *testing.T) {
	visits := 40
	if long() {
		visits = 1000
	}
	records, twice, resumed := nonces(t, visits, func(int) bool { return false })
	if twice != 0 || records < 2*visits || resumed < visits/4 {
		t.Errorf("%d records, %d nonces twice, %d visits resumed", records, twice, resumed)
	}
	t.Logf("%d records under Connection IDs, %d visits resumed", records, resumed)
}

// Control: a file that comes back as it was before a visit is caught.
func TestNonceTwiceIsCaught(t *testing.T) {
	_, twice, _ := nonces(t, 12, func(i int) bool { return i%2 == 1 })
	if twice == 0 {
		t.Error("an old file was used, and no nonce came twice")
	}
}
