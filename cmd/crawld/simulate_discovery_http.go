package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/crawld/crawld/internal/api"
	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/sim"
)

// discoveryHTTP serves the repository by the daemon's own handler on loopback, and lets so
// many clients ask it. end stops the server.
func discoveryHTTP(r *repository.Repository, clients int) (t sim.DiscoveryTracer, end func() error,
	err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return t, nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: api.New(api.Options{
		Repo: r, Gatherer: prometheus.NewRegistry(), Log: zap.NewNop(),
		Do: func(context.Context, func(*planner.Planner, time.Time)) error {
			return errors.New("there is no planner in this experiment")
		},
		Reload:  func(context.Context) error { return errors.New("there is nothing to reload") },
		Config:  func() string { return "" },
		Ready:   func() bool { return true },
		Version: version,
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	base := "http://" + listener.Addr().String() + "/epcs/"
	t = sim.DiscoveryTracer{
		Name: sim.DiscoveryHTTP,
		Trace: func(ctx context.Context, object string) error {
			_, err := getTrace(ctx, client, base, object)
			return err
		},
		Found: func(ctx context.Context, object string) ([]discovery.Traced, error) {
			body, err := getTrace(ctx, client, base, object)
			if err != nil {
				return nil, err
			}
			return decodeTrace(body)
		},
	}
	return t, func() error {
		client.CloseIdleConnections()
		err := server.Close()
		if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
		return err
	}, nil
}

// getTrace asks for a trace and reads the whole answer.
func getTrace(ctx context.Context, client *http.Client, base, object string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+url.PathEscape(object)+"/trace",
		nil)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.200s", res.Status, body)
	}
	return body, err
}

// decodeTrace reads of an answer what all contenders answer.
func decodeTrace(body []byte) ([]discovery.Traced, error) {
	var answer struct {
		Events []struct {
			EventID string    `json:"event_id"`
			Time    time.Time `json:"time"`
			Level   int       `json:"level"`
			BizStep string    `json:"biz_step"`
			Source  string    `json:"source"`
		} `json:"events"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	found := make([]discovery.Traced, len(answer.Events))
	for i, e := range answer.Events {
		found[i] = discovery.Traced{Level: e.Level, Cell: discovery.Cell{EventID: e.EventID,
			Time: e.Time.UnixMicro(), BizStep: e.BizStep, Source: e.Source}}
	}
	return found, nil
}
