package app

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/crawld/crawld/internal/config"
)

// overSocket is a client of a daemon's control socket.
func overSocket(t *testing.T, a *App) *http.Client {
	t.Helper()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", SocketPath(a.o.Config.Data))
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: bound}
}

// ask returns status and body of an answer.
func ask(t *testing.T, c *http.Client, method, url, password string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if password != "" {
		r.SetBasicAuth("u", password)
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// secure writes a web configuration with a certificate and a user "u", password "secret".
func secure(t *testing.T) (file string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, text := range map[string][]byte{"cert.pem": certPEM,
		"key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		"web.yaml": fmt.Appendf(nil, "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"+
			"basic_auth_users: {u: %q}\n", hash)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(certPEM)
	return filepath.Join(dir, "web.yaml"), roots
}

// The web configuration holds on every port and not on the control socket.
func TestWebConfiguration(t *testing.T) {
	o := options(t, "coap://127.0.0.1:9/")
	file, roots := secure(t)
	o.Config.Web.ConfigFile = file
	o.Config.Web.Listen = []string{"127.0.0.1:0", "127.0.0.1:0"}
	var told states
	o.Notify = told.note
	a, stop := start(t, o)
	defer stop()
	for _, protocols := range [][]string{{"h2"}, {"http/1.1"}} {
		transport := &http.Transport{ForceAttemptHTTP2: protocols[0] == "h2",
			TLSClientConfig: &tls.Config{RootCAs: roots, NextProtos: protocols}}
		client := &http.Client{Transport: transport, Timeout: bound}
		for _, d := range a.doors[:2] {
			url := "https://" + d.listener.Addr().String()
			for path, want := range map[string]int{"/-/healthy": 200, "/": 200, "/-/nothing": 404,
				"/debug/pprof/": 403} {
				for password, code := range map[string]int{"": 401, "wrong": 401, "secret": want} {
					if got, body := ask(t, client, "GET", url+path, password); got != code {
						t.Errorf("%v %s, password %q: %d %s", protocols, path, password, got, body)
					}
				}
			}
			if got, body := ask(t, client, "POST", url+"/-/reload", "secret"); got != 200 {
				t.Errorf("reload: %d %s", got, body)
			}
		}
		transport.CloseIdleConnections()
	}
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: bound}
	if code, _ := ask(t, plain, "GET", "http://"+a.Addr().String()+"/-/healthy", "secret"); code != 400 {
		t.Errorf("without TLS: %d", code)
	}
	if code, body := ask(t, overSocket(t, a), "GET", "http://crawld/debug/pprof/cmdline", ""); code != 200 {
		t.Errorf("control socket: %d %s", code, body)
	}
}

// What a file that cannot be used says, before anything runs.
func TestWebConfigurationErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.yaml")
	for text, want := range map[string]string{
		"basic_auth_users: {u: notbcrypt}": "bcrypt", "nonsense: 1": "nonsense",
		"tls_server_config: {cert_file: no.pem, key_file: no.pem}": "no.pem",
		"http_server_config: {headers: {X-Other: a}}":              "X-Other"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w := config.Default().Web
		w.ConfigFile = file
		err := CheckWeb(w)
		if err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "web.config_file") {
			t.Errorf("%s: %v", text, err)
		}
		o := options(t, "coap://127.0.0.1:9/")
		o.Config.Web.ConfigFile = file
		if _, err := New(o); err == nil {
			t.Errorf("%s: it starts", text)
		}
	}
}

// The prefix is before every route of a port, and before none of the control socket.
func TestRoutePrefix(t *testing.T) {
	for _, c := range []struct{ external, prefix, want string }{
		{"https://h.example/crawld/", "", "/crawld"}, {"", "/a/b/", "/a/b"}, {"", "a", "/a"},
		{"https://h.example/crawld", "/", ""}, {"https://h.example", "", ""},
	} {
		w := config.Web{ExternalURL: c.external, RoutePrefix: c.prefix}
		if got := w.Prefix(); got != c.want {
			t.Errorf("%+v: prefix %q", c, got)
		}
	}
	o := options(t, "coap://127.0.0.1:9/")
	o.Config.Web.ExternalURL = "https://h.example/crawld/"
	a, stop := start(t, o)
	defer stop()
	base := "http://" + a.Addr().String()
	client := &http.Client{Timeout: bound, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for path, want := range map[string]int{"/crawld/-/healthy": 200, "/-/healthy": 404, "/": 302,
		"/crawld": 307, "/crawld/": 200, "/crawldx/": 404, "/crawld/api/v1/status": 200,
		"/crawld/crawld/": 404, "/crawld/api/v1/sensors/coap%3A%2F%2F127.0.0.1%3A9%2F": 200} {
		if code, body := ask(t, client, "GET", base+path, ""); code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if code, _ := ask(t, overSocket(t, a), "GET", "http://crawld/-/healthy", ""); code != 200 {
		t.Errorf("control socket: %d", code)
	}
	// The proxy asks by its own name for the host; the page's own requests pass all the same.
	for origin, want := range map[string]int{"https://h.example": 200, "https://other.example": 403} {
		r, err := http.NewRequest("POST", base+"/crawld/-/reload", bytes.NewReader(nil))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", origin)
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("origin %s: %d", origin, resp.StatusCode)
		}
	}
}
