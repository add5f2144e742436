package api

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/repository"
)

// Options are the parts that the handler shows. All are needed but Fleet, Gate, External,
// Metrics and Expires.
type Options struct {
	Repo *repository.Repository
	// Do runs f on the loop that owns the planner. An error means that f did not
	// and will not run.
	Do func(ctx context.Context, f func(p *planner.Planner, now time.Time)) error
	// Reload reads the sensor lists again, all or nothing. Its error's lines are
	// the answer.
	Reload   func(ctx context.Context) error
	Config   func() string // effective configuration as YAML, secrets redacted
	Gatherer prometheus.Gatherer
	Version  string
	Log      *zap.Logger
	Ready    func() bool // config loaded, store open, first plan made
	// Fleet is the fleet that the planner has now; it must not block. nil: sleep
	// plans are shown as text, without their windows.
	Fleet func() *fleet.Fleet
	// Gate says who may publish events and who may see them; it must not block. nil: nobody
	// may publish and all may see.
	Gate func() *discovery.Gate
	// External is how clients reach the handler through a proxy, without a slash at its end;
	// nil: as they ask.
	External *url.URL
	Metrics  prometheus.Registerer // of what the handler itself counts; nil = not shown
	// Expires is when the lifetime of a sensor ends that registered itself; false for those
	// that are listed. nil: all are.
	Expires func(sensor string) (at time.Time, registered bool)
}

const (
	patience       = 20 * time.Second // for all of an answer but a reload's
	reloadPatience = 50 * time.Second // a million sensors are read and planned
	healthPatience = 5 * time.Second
	maxBody        = 64 << 10 // of a request whose body is not read
	maxScrapes     = 8        // at a time; a Prometheus pair needs two
	maxFleetwide   = 4        // requests at a time that ask about the whole fleet
)

//go:embed templates static
var files embed.FS

// server is what the handlers share.
type server struct {
	o         Options
	length    atomic.Int64  // of a time range in ns, 0 until asked for
	fleetwide chan struct{} // a slot for each request that asks about the whole fleet
	probing   chan struct{} // the slot of the one health read of the store
	pages     *template.Template
	style     []byte
	prefix    string // of paths, for clients; of Options.External

	events     discovery.Store
	publishing *semaphore.Weighted // bytes of bodies
	queries    chan struct{}       // a slot for each trace and page of events
	counts     *discoveryMetrics
}

// New makes the handler. It is safe for concurrent use.
func New(o Options) http.Handler {
	if o.Gate == nil {
		shut := discovery.NewGate(nil, nil)
		o.Gate = func() *discovery.Gate { return shut }
	}
	s := &server{o: o, fleetwide: make(chan struct{}, maxFleetwide),
		probing: make(chan struct{}, 1), events: o.Repo, publishing: newPublishing(),
		queries: make(chan struct{}, maxQueries), counts: newDiscoveryMetrics(o.Metrics),
		pages: template.Must(template.New("").Funcs(pageFuncs()).ParseFS(files, "templates/*.html"))}
	var err error
	if s.style, err = files.ReadFile("static/style.css"); err != nil {
		panic(err) // it is embedded
	}
	mux := http.NewServeMux()
	s.routes(mux)
	return hardened(s.sameOrigin(mux))
}

// sameOrigin refuses what a page of another origin makes a browser send, but for GET and
// HEAD, which change nothing. What is no browser says nothing of origins and is let through.
func (s *server) sameOrigin(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	if u := s.o.External; u != nil {
		s.prefix = u.EscapedPath()
		// A proxy may ask by another host name than the browser did.
		if err := protection.AddTrustedOrigin(u.Scheme + "://" + u.Host); err != nil {
			s.o.Log.Warn("external URL is no origin", zap.Error(err))
		}
	}
	return protection.Handler(next)
}

func (s *server) routes(mux *http.ServeMux) {
	get := func(path string, h http.HandlerFunc) { mux.HandleFunc("GET "+path, bounded(patience, h)) }
	get("/{$}", s.indexPage)
	get("/search", s.searchPage)
	get("/sensors/{id}", s.sensorPage)
	get("/sensors", s.sensorPage)
	get("/static/style.css", s.stylesheet)
	get("/config", s.config)
	get("/-/healthy", s.healthy)
	get("/-/ready", s.ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.o.Gatherer, promhttp.HandlerOpts{
		ErrorLog: zap.NewStdLog(s.o.Log), MaxRequestsInFlight: maxScrapes, Timeout: patience}))
	reload := localOnly(bounded(reloadPatience, s.reload))
	mux.Handle("POST /-/reload", reload)
	mux.Handle("PUT /-/reload", reload)
	mux.Handle("GET /-/backup", controlOnly(s.backup))
	s.profiling(mux)

	get("/api/v1/status", s.answer(s.status))
	get("/api/v1/plan", s.answer(s.plan))
	get("/api/v1/search", s.answer(s.search))
	get("/api/v1/sensors", s.answer(s.sensors))
	get("/api/v1/sensors/{id}", s.answer(s.sensor))
	get("/api/v1/sensors/{id}/versions", s.answer(s.versions))
	get("/api/v1/versions", s.answer(s.versions))
	get("/api/v1/sensors/{id}/versions/{hash}/body", s.body)
	get("/api/v1/sensors/{id}/body", s.body)
	get("/api/v1/body", s.body)
	get("/api/v1/groups", s.answer(s.groups))
	get("/api/v1/groups/{id}", s.answer(s.group))
	get("/api/v1/groups/{id}/versions", s.answer(s.snapshots))
	get("/api/v1/groups/{id}/versions/{hash}/body", s.groupBody)
	get("/api/v1/groups/{id}/body", s.groupBody)

	publish := bounded(patience, s.publish)
	mux.Handle("POST /events", publish)
	mux.Handle("POST /capture", publish)
	get("/events", s.listed(s.eventPage))
	get("/events/{id}", s.listed(s.eventByID))
	get("/epcs/{epc}/events", s.listed(s.eventsOf))
	get("/epcs/{epc}/trace", s.answer(s.trace))
}

// hardened puts on every answer what keeps a browser from doing more with it
// than showing it.
func hardened(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; "+
			"img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
			// Had it a Content-Length too, a proxy may have seen another end of it, and what
			// follows is not what it seems (RFC 9112 section 6.1). net/http hides that.
			h.Set("Connection", "close")
		}
		r.Body = http.MaxBytesReader(w, r.Body, bodyLimit(r))
		next.ServeHTTP(w, r)
	})
}

// bodyLimit is how much of a request's body may be read.
func bodyLimit(r *http.Request) int64 {
	if r.Method == http.MethodPost && (r.URL.Path == "/events" || r.URL.Path == "/capture") {
		return maxDrained
	}
	return maxBody
}

// bounded ends the request's context after a while. Nothing behind it waits
// for anything but the context.
func bounded(d time.Duration, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), d)
		defer cancel()
		next(w, r.WithContext(ctx))
	}
}

// fault is an error with its HTTP status. Its text is for the client.
type fault struct {
	status int
	text   string
	code   string // for programs; "" where the status says it all
}

func (f fault) Error() string { return f.text }

func faultf(status int, format string, args ...any) error {
	return fault{status: status, text: fmt.Sprintf(format, args...)}
}

// describe maps an error to its answer. What is no fault comes from the store:
// nothing that the client could mend.
func (s *server) describe(r *http.Request, err error) fault {
	var f fault
	if !errors.As(err, &f) {
		var known bool
		if f, known = discoveryFault(err); !known {
			f = fault{status: http.StatusInternalServerError, text: err.Error()}
		}
	}
	if f.status == http.StatusInternalServerError {
		s.o.Log.Error("request failed", zap.String("path", r.URL.Path), zap.Error(err))
	}
	return f
}

// answer writes what a handler returns as JSON. All of it is encoded before the
// first byte is written, so a status is never followed by half an answer.
func (s *server) answer(f func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text := answers.Get().(*bytes.Buffer)
		defer keepBuffer(text)
		v, err := f(r)
		if err == nil {
			err = json.NewEncoder(text).Encode(v)
		}
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		writeJSON(w, http.StatusOK, text.Bytes())
	}
}

// answers are buffers of answers that were written.
var answers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxBuffer bounds a buffer that is kept.
const maxBuffer = 64 << 10

func keepBuffer(b *bytes.Buffer) {
	if b.Cap() <= maxBuffer {
		b.Reset()
		answers.Put(b)
	}
}

// refuse answers with the error as JSON.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	f := s.describe(r, err)
	answer := map[string]string{"error": f.text}
	if f.code != "" {
		answer["code"] = f.code
	}
	if c := challenge(f); c != "" {
		w.Header().Set("WWW-Authenticate", c)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		panic(err) // a map of strings can be written
	}
	writeJSON(w, f.status, append(text, '\n'))
}

func writeJSON(w http.ResponseWriter, status int, text []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(text))) // a longer one would go out in chunks
	w.WriteHeader(status)
	_, _ = w.Write(text) // the peer may have gone
}

// ask runs f on the planner's loop.
func (s *server) ask(ctx context.Context, f func(p *planner.Planner, now time.Time)) error {
	if err := s.o.Do(ctx, f); err != nil {
		return faultf(http.StatusServiceUnavailable, "the planner does not answer: %v", err)
	}
	return nil
}

// askFleet is ask for what costs the loop time in proportion to the fleet.
func (s *server) askFleet(ctx context.Context, f func(p *planner.Planner, now time.Time)) error {
	select {
	case s.fleetwide <- struct{}{}:
		defer func() { <-s.fleetwide }()
		return s.ask(ctx, f)
	case <-ctx.Done():
		return faultf(http.StatusServiceUnavailable,
			"%d requests about the whole fleet are running; try again", maxFleetwide)
	}
}
