package directory

import (
	"fmt"
	"strings"

	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/prometheus/client_golang/prometheus"
)

// codeDropped is the code of a datagram that got no answer.
const codeDropped = "dropped"

// The paths of the directory. What else is asked for counts as other: a label's values must
// not come from the network.
const (
	pathCore      = "/.well-known/core"
	pathSimple    = "/.well-known/rd"
	pathRegister  = "/rd"
	pathResources = "/rd-lookup/res"
	pathEndpoints = "/rd-lookup/ep"
	pathLocation  = "/rd/{number}"
	pathOther     = "other"
)

type metrics struct {
	requests *prometheus.CounterVec
}

func (m *metrics) register(reg prometheus.Registerer) {
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "crawld_directory_requests_total",
		Help: "Requests to the resource directory by path and response code; " +
			"dropped ones got no answer."}, []string{"path", "code"})
	for path, code := range map[string]string{pathCore: "2.05", pathSimple: "2.04",
		pathRegister: "2.01", pathResources: "2.05", pathEndpoints: "2.05", pathLocation: "2.04",
		pathOther: codeDropped} {
		m.requests.WithLabelValues(path, code)
	}
	if reg != nil {
		reg.MustRegister(m.requests)
	}
}

func (m *metrics) count(path, code string) {
	m.requests.WithLabelValues(label(path), code).Inc()
}

func label(path string) string {
	switch path {
	case pathCore, pathSimple, pathRegister, pathResources, pathEndpoints:
		return path
	}
	if strings.HasPrefix(path, pathRegister+"/") {
		return pathLocation
	}
	return pathOther
}

// dotted writes a code the way people know it, such as 2.05.
func dotted(c codes.Code) string { return fmt.Sprintf("%d.%02d", c>>5, c&31) }
