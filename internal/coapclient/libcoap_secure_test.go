package coapclient

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// libcoapServer starts a server of libcoap and returns its plain port; the secure one, if it
// has one, is the next.
func libcoapServer(t *testing.T, program string, args ...string) (plain, secure string) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not installed (Debian: libcoap3-bin)", program)
	}
	port := 0
	for range 20 { // two free ports in a row, for UDP
		first, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		port = first.LocalAddr().(*net.UDPAddr).Port
		second, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port + 1})
		_ = first.Close()
		if err == nil {
			_ = second.Close()
			break
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	server := exec.CommandContext(ctx, path,
		append([]string{"-A", "127.0.0.1", "-p", strconv.Itoa(port)}, args...)...)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = server.Wait() // killed
	})
	return "127.0.0.1:" + strconv.Itoa(port), "127.0.0.1:" + strconv.Itoa(port+1)
}

// await visits until the server has started: its port is closed before.
func await(t *testing.T, c *Client, v visit.Visit) (out visit.Outcome) {
	t.Helper()
	waitFor(t, func() bool {
		out = fetch(t, c, v)
		return out.Result != visit.Asleep && out.Reason != ReasonNetwork && out.Reason != ReasonICMP
	})
	return out
}

// TestLibcoapPSK visits libcoap over DTLS with a pre-shared key, as built with OpenSSL and
// with GnuTLS: the core document, a large body, sessions, a wrong key and identity.
func TestLibcoapPSK(t *testing.T) {
	for _, program := range []string{"coap-server-openssl", "coap-server-gnutls"} {
		t.Run(program, func(t *testing.T) {
			dir := t.TempDir()
			users := filepath.Join(dir, "users")
			if err := os.WriteFile(users, []byte(",crawld,"+string(theKey)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, secure := libcoapServer(t, program, "-k", string(theKey), "-d", "10", "-i", users)
			good := pskCredential()
			wrong := Credential{ID: "wrong", Identity: "crawld", Key: []byte("another key......")}
			nobody := Credential{ID: "nobody", Identity: "nobody", Key: []byte("another key......")}
			sessions, _ := newSessions(t)
			c := newClient(t, Options{Credentials: []Credential{good, wrong, nobody}, Sessions: sessions})
			ask := func(path, credential string) visit.Visit {
				v := visitTo("coaps://" + secure + path)
				v.Sensor, v.Credential, v.AckTimeout = "libcoap", credential, time.Second
				return v
			}
			out := await(t, c, ask("/.well-known/core", "psk"))
			is(t, out, visit.Described, "", true)
			t.Logf("first visit %d+%d datagrams, %d+%d bytes, %d links", out.DatagramsSent,
				out.DatagramsReceived, out.BytesSent, out.BytesReceived, out.Links)
			again := fetch(t, c, ask("/.well-known/core", "psk"))
			is(t, again, visit.Described, "", true)
			t.Logf("later visit %d+%d datagrams, %d+%d bytes", again.DatagramsSent,
				again.DatagramsReceived, again.BytesSent, again.BytesReceived)
			is(t, fetch(t, c, ask("/none", "psk")), visit.Refused, ReasonCode, true)
			for _, id := range []string{"wrong", "nobody"} {
				v := ask("/.well-known/core", id)
				v.AckTimeout, v.Retrans = 100*time.Millisecond, 2
				out := fetch(t, c, v)
				is(t, out, visit.Failed, ReasonAuth, true)
				t.Logf("%s: %s", id, out.Error)
			}
			large(t, c, ask, secure)
		})
	}
}

// large stores a body and fetches it in blocks.
func large(t *testing.T, c *Client, ask func(path, credential string) visit.Visit, secure string) {
	body := storeLarge(t, secure)
	got := fetch(t, c, ask("/example_data", "psk"))
	described(t, got, string(body))
	t.Logf("%d bytes in %d blocks, %d+%d datagrams", len(got.Body), got.Blocks, got.DatagramsSent,
		got.DatagramsReceived)
}

// storeLarge puts a body of 20 000 bytes at /example_data with libcoap's own client.
func storeLarge(t *testing.T, secure string) []byte {
	t.Helper()
	client, err := exec.LookPath("coap-client-openssl")
	if err != nil {
		t.Skip("coap-client-openssl is not installed (Debian: libcoap3-bin)")
	}
	body := bodyOf(20_000, 0)
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(client, "-m", "put", "-u", "crawld", "-k", string(theKey), "-f", file,
		"coaps://"+secure+"/example_data").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return body
}
