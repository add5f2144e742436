package coapclient

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	responderEnv   = "CRAWLD_TEST_RESPONDER"
	benchWorkers   = 32
	responderPorts = 2 * benchWorkers // the first half serves text, the second link format
)

// respond is another process, so that its CPU time is not counted: a sensor on
// each of many ports that puts one fixed body into the ACK. It ends with stdin.
func respond() {
	for i := range responderPorts {
		format := uint32(0)
		if i >= benchWorkers {
			format = 40
		}
		tail := wire(0, 0, 0, nil, []option{num(12, format)}, []byte(links))[4:]
		conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			panic(err)
		}
		fmt.Println(conn.LocalAddr())
		go func() {
			in, out := make([]byte, 2048), make([]byte, 0, 256)
			for {
				n, from, err := conn.ReadFromUDPAddrPort(in)
				if err != nil || n < 12 {
					return
				}
				out = append(append(out[:0], 0x68, content), in[2:12]...)
				_, _ = conn.WriteToUDPAddrPort(append(out, tail...), from)
			}
		}()
	}
	fmt.Println()
	_, _ = os.Stdin.Read(make([]byte, 1))
}

func startResponder(b *testing.B) (addrs []string) {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), responderEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != ""; {
		addrs = append(addrs, lines.Text())
	}
	return addrs
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// spread runs b.N operations on the workers and returns CPU time per operation.
func spread(b *testing.B, op func(worker, i int)) float64 {
	var next atomic.Int64
	var wg sync.WaitGroup
	runtime.GC()
	b.ReportAllocs()
	start := cpu(b)
	b.ResetTimer()
	for w := range benchWorkers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				op(w, int(i))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	perOp := float64(cpu(b)-start) / float64(b.N)
	b.ReportMetric(perOp, "cpu-ns/op")
	return perOp
}

// BenchmarkExchange compares a visit with the least that any client could do: a
// connected socket per worker, a GET written by hand, one write, one read. The
// responder is another process. x-raw is the ratio of CPU times per operation,
// of the exchange alone and together with reading the body as link format.
func BenchmarkExchange(b *testing.B) {
	addrs := startResponder(b)
	var raw float64
	b.Run("raw", func(b *testing.B) {
		var conns [benchWorkers]net.Conn
		var gets, ins [benchWorkers][]byte
		for w := range conns {
			var err error
			gets[w] = wire(con, 1, 0, make([]byte, 8),
				[]option{{11, []byte(".well-known")}, {11, []byte("core")}, {17, []byte{40}}}, nil)
			ins[w] = make([]byte, 2048)
			if conns[w], err = net.Dial("udp4", addrs[w]); err != nil {
				b.Fatal(err)
			}
			defer conns[w].Close()
		}
		raw = spread(b, func(w, i int) {
			get, in := gets[w], ins[w]
			binary.BigEndian.PutUint16(get[2:], uint16(i))
			binary.BigEndian.PutUint64(get[4:], uint64(i))
			_ = conns[w].SetReadDeadline(time.Now().Add(2 * time.Second))
			if _, err := conns[w].Write(get); err != nil {
				b.Error(err)
			}
			n, err := conns[w].Read(in)
			if err != nil || n < 12 || !bytes.Equal(in[4:12], get[4:12]) ||
				!bytes.HasSuffix(in[:n], []byte(links)) {
				b.Errorf("%v: %q", err, in[:n])
			}
		})
	})
	visits := func(addrs []string) func(b *testing.B) {
		return func(b *testing.B) {
			c := newClient(b, Options{})
			perOp := spread(b, func(w, _ int) {
				v := visitTo("coap://" + addrs[w] + "/.well-known/core")
				v.AckTimeout = 2 * time.Second
				out := c.Fetch(context.Background(), v)
				if string(out.Body) != links {
					b.Errorf("%v %s", out.Result, out.Error)
				}
			})
			b.ReportMetric(perOp/raw, "x-raw")
		}
	}
	b.Run("crawld", visits(addrs[:benchWorkers]))
	b.Run("crawld-and-parse", visits(addrs[benchWorkers:]))
}
