package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/crawld/crawld/internal/planner"
)

// healthy is GET /-/healthy: does the loop take calls, and can the store be
// read and written.
func (s *server) healthy(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), healthPatience)
	defer cancel()
	err := s.o.Do(ctx, func(*planner.Planner, time.Time) {})
	if err != nil {
		err = fmt.Errorf("the crawl loop does not answer: %w", err)
	} else {
		err = s.readStore(ctx)
	}
	if err != nil {
		writeText(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	text := "ok"
	for _, t := range s.o.Repo.Troubles() { // a restart would mend none of them
		text += "\ndegraded: " + t.Text
	}
	writeText(w, http.StatusOK, text)
}

// readStore reads a row. The read is not waited for longer than ctx lasts, as a
// disk that hangs would hang this too, and no second one is started meanwhile.
func (s *server) readStore(ctx context.Context) error {
	select {
	case s.probing <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("the store does not answer: an earlier read still hangs")
	}
	read := make(chan error, 1)
	go func() {
		defer func() { <-s.probing }()
		_, err := s.o.Repo.Fleet()
		read <- err
	}()
	select {
	case err := <-read:
		if err != nil {
			return fmt.Errorf("the store cannot be read: %w", err)
		}
	case <-ctx.Done():
		return fmt.Errorf("the store does not answer: %w", ctx.Err())
	}
	if s.o.Repo.Stats().Broken {
		return fmt.Errorf("the store takes no writes: an earlier one failed; the data file is being " +
			"reopened and checked")
	}
	return nil
}

// ready is GET /-/ready.
func (s *server) ready(w http.ResponseWriter, _ *http.Request) {
	if !s.o.Ready() {
		writeText(w, http.StatusServiceUnavailable, "not ready: the first plan is being made")
		return
	}
	writeText(w, http.StatusOK, "ready")
}

// config is GET /config.
func (s *server) config(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/yaml; charset=utf-8")
	_, _ = io.WriteString(w, s.o.Config()) // the peer may have gone
}

// reload is POST /-/reload. Who reloads logs why it failed.
func (s *server) reload(w http.ResponseWriter, r *http.Request) {
	if err := s.o.Reload(r.Context()); err != nil {
		writeText(w, http.StatusInternalServerError, err.Error())
		return
	}
	writeText(w, http.StatusOK, "reloaded")
}

type controlKey struct{}

// Control marks what comes over the control socket, whose mode says who may use it. An
// address cannot tell: clients of any unix socket have none.
func Control(ctx context.Context) context.Context {
	return context.WithValue(ctx, controlKey{}, true)
}

// overControl tells requests over the control socket from all others.
func overControl(r *http.Request) bool { return r.Context().Value(controlKey{}) != nil }

// localOnly lets peers of the loopback interface and of the control socket through.
func localOnly(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ap, err := netip.ParseAddrPort(r.RemoteAddr)
		if !overControl(r) && (err != nil || !ap.Addr().Unmap().IsLoopback()) {
			writeText(w, http.StatusForbidden, "only loopback and control-socket peers may do this")
			return
		}
		next(w, r)
	})
}

// controlOnly lets peers of the control socket through: whoever may use it could read the
// data file, and the process's memory, too.
func controlOnly(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !overControl(r) {
			writeText(w, http.StatusForbidden, "only peers of the control socket may do this")
			return
		}
		next(w, r)
	})
}

func writeText(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, line+"\n") // the peer may have gone
}
