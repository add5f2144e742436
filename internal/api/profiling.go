package api

import (
	"net/http"
	"net/http/pprof"
)

// profiling serves what net/http/pprof has, for peers of the control socket:
//
//	curl --unix-socket crawld.sock -o cpu.prof http://crawld/debug/pprof/profile?seconds=20
//
// Profiles show names and, of the heap, sizes; a CPU profile costs time while it runs.
func (s *server) profiling(mux *http.ServeMux) {
	mux.Handle("GET /debug/pprof/", controlOnly(pprof.Index))
	mux.Handle("GET /debug/pprof/cmdline", controlOnly(pprof.Cmdline))
	mux.Handle("GET /debug/pprof/profile", controlOnly(pprof.Profile))
	mux.Handle("GET /debug/pprof/symbol", controlOnly(pprof.Symbol))
	mux.Handle("GET /debug/pprof/trace", controlOnly(pprof.Trace))
}
