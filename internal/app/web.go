package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/exporter-toolkit/web"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"go.yaml.in/yaml/v3"

	"github.com/crawld/crawld/internal/api"
	"github.com/crawld/crawld/internal/config"
)

// Limits of a request. What a client may take its time over is bounded by connections too.
const (
	headerTime  = 3 * time.Second // TLS handshakes too
	requestTime = 10 * time.Second
	answerTime  = time.Minute // more than package api takes for any but a backup
	idleTime    = time.Minute
	headerBytes = 16 << 10 // net/http adds 4 KiB
	streams     = 32       // requests at once on one connection, over HTTP/2
)

// door is a listener with its server. Each has its own: exporter-toolkit changes the server
// that it is given.
type door struct {
	listener net.Listener
	server   *http.Server
	serve    func() error
}

// CheckWeb tells what would keep the HTTP side from starting, but for addresses in use.
func CheckWeb(c config.Web) error {
	if err := c.Check(); err != nil {
		return err
	}
	_, err := readWebConfig(c.ConfigFile)
	return err
}

// readWebConfig checks exporter-toolkit's file, and that its certificates can be read.
func readWebConfig(path string) (c web.Config, err error) {
	if path == "" {
		return c, nil
	}
	if err := web.Validate(path); err != nil {
		return c, fmt.Errorf("web.config_file %s: %w", path, err)
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(text, &c)
	}
	if err != nil {
		return c, fmt.Errorf("web.config_file %s: %w", path, err)
	}
	return c, nil
}

// listen opens the HTTP ports and the control socket beside the data file.
func (a *App) listen() error {
	w := a.o.Config.Web
	if err := w.Check(); err != nil {
		return err
	}
	secured, err := readWebConfig(w.ConfigFile)
	if err != nil {
		return err
	}
	if len(secured.Users) > 0 && len(a.o.Config.Publishers)+len(a.o.Config.Readers) > 0 {
		a.o.Log.Warn("basic_auth_users of web.config_file takes the place of bearer tokens: " +
			"publishers and readers are let in by the control socket only")
	}
	a.scheme = "http"
	if secured.TLSConfig.IsEnabled() {
		a.scheme = "https"
	}
	listeners, err := openPorts(w)
	for _, l := range listeners {
		a.defers("http port", ignoreClosed(l.Close))
	}
	if err != nil {
		return err
	}
	a.public = listeners[0].Addr()
	handler := a.handler()
	a.openDoors(listeners, handler)
	return a.openControl(handler)
}

// openPorts opens what is configured, or takes what systemd hands over. On an error some may
// be open.
func openPorts(w config.Web) (listeners []net.Listener, err error) {
	if w.SystemdSocket {
		listeners, err = activation.Listeners()
		if err == nil && len(listeners) == 0 {
			err = errors.New("systemd handed over no socket; start the socket unit")
		}
		if err != nil {
			return listeners, fmt.Errorf("web.systemd_socket: %w", err)
		}
		return listeners, nil
	}
	for _, address := range w.Listen {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return listeners, fmt.Errorf(
				"web.listen: %w; is another crawld running, or choose another port", err)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// openDoors serves the pages on the ports: with what the web configuration asks for, below
// the prefix of the routes.
func (a *App) openDoors(listeners []net.Listener, handler http.Handler) {
	w := a.o.Config.Web
	socket := false
	flags := &web.FlagConfig{WebListenAddresses: &w.Listen, WebSystemdSocket: &socket,
		WebConfigFile: &w.ConfigFile}
	log := slog.New(zapslog.NewHandler(a.o.Log.Core()))
	all := a.newConnections("public", maxConnections)
	for _, l := range listeners {
		server := a.newServer(below(w.Prefix(), handler))
		server.ConnContext = remember
		bounded := all.bounded(l)
		a.doors = append(a.doors, door{l, server, func() error {
			return web.Serve(bounded, server, flags, log)
		}})
	}
}

// openControl serves the same on the control socket, whose mode says who may use it.
func (a *App) openControl(handler http.Handler) error {
	l, err := listenControl(SocketPath(a.o.Config.Data))
	if err != nil {
		return err
	}
	a.defers("control socket", ignoreClosed(l.Close))
	server := a.newServer(handler)
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return api.Control(remember(ctx, conn))
	}
	bounded := a.newConnections("control", maxControl).bounded(l)
	a.doors = append(a.doors, door{l, server, func() error { return server.Serve(bounded) }})
	return nil
}

func (a *App) newServer(handler http.Handler) *http.Server {
	return &http.Server{Handler: counted(handler), ReadHeaderTimeout: headerTime,
		ReadTimeout: requestTime, WriteTimeout: answerTime, IdleTimeout: idleTime,
		MaxHeaderBytes: headerBytes, ErrorLog: zap.NewStdLog(a.o.Log),
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: streams}}
}

func (a *App) newConnections(door string, most int) *connections {
	labels := prometheus.Labels{"door": door}
	evicted := prometheus.NewCounter(prometheus.CounterOpts{
		Name:        "crawld_http_evicted_connections_total",
		Help:        "Connections closed to make room for newer ones: slow clients, or too many.",
		ConstLabels: labels})
	c := newConnections(affordable(most), evicted)
	a.defers("descriptor in reserve", c.close)
	a.registry.MustRegister(evicted, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "crawld_http_connections", Help: "Open HTTP connections.", ConstLabels: labels},
		func() float64 {
			c.mu.Lock()
			defer c.mu.Unlock()
			return float64(c.open())
		}))
	return c
}

// below answers at paths that begin with a prefix, and sends who asks for the root there.
func below(prefix string, next http.Handler) http.Handler {
	if prefix == "" {
		return next
	}
	mux := http.NewServeMux()
	mux.Handle(prefix+"/", http.StripPrefix(prefix, next))
	mux.Handle("GET /{$}", http.RedirectHandler(prefix+"/", http.StatusFound))
	return mux
}

// listenControl opens a unix socket that only its owner may use.
func listenControl(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("control socket %s: the path has %d bytes, a socket's may have %d; "+
			"choose a shorter data path", path, len(path), maxSocketPath)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("control socket: %w", err), l.Close())
	}
	return l, nil
}

func ignoreClosed(close func() error) func() error {
	return func() error {
		if err := close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
}

// maxSocketPath is what fits into a sockaddr_un on every system.
const maxSocketPath = 103

// SocketPath is the control socket of a daemon with that data file.
func SocketPath(data string) string { return filepath.Join(filepath.Dir(data), "crawld.sock") }

// removeStale removes the socket of a daemon that was killed. The database's
// lock, taken before, says that no other daemon has this data file.
func removeStale(path string) error {
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return fmt.Errorf("control socket %s: another crawld answers on it", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("control socket: %w", err)
	}
	return nil
}

// Addr is the first HTTP port's address.
func (a *App) Addr() net.Addr { return a.public }

// shutDoors ends new requests, waits a moment for those under way, then cuts them off.
func (a *App) shutDoors(ctx context.Context) error {
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	var errs []error
	for _, d := range a.doors {
		if err := d.server.Shutdown(bound); err != nil {
			errs = append(errs, d.server.Close())
		}
	}
	return errors.Join(errs...)
}
