package crawler

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/visit"
)

// metrics are what the loop counts. Sensors are never labels: a million of them
// on one gauge would be a scrape of 100 MB.
type metrics struct {
	crawls        *prometheus.CounterVec
	attempts      *prometheus.CounterVec
	duration      prometheus.Histogram
	lateness      prometheus.Histogram
	age           prometheus.Histogram
	eventLatency  prometheus.Histogram
	datagrams     *prometheus.CounterVec
	bytes         *prometheus.CounterVec
	retrans       prometheus.Counter
	jumps         prometheus.Counter
	storeFailures prometheus.Counter
	planDuration  prometheus.Histogram
	planFailures  prometheus.Counter
	planTime      prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer, c *Crawler) *metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	m := &metrics{
		crawls:   counterVec("crawls_total", "Visits by what became of them.", "outcome"),
		attempts: counterVec("attempts_total", "Visits started, by who asked for them.", "kind"),
		duration: histogram("crawl_duration_seconds", "How long an exchange ran.",
			.005, .02, .1, .5, 1, 2, 5, 10, 20, 45, 93),
		lateness: histogram("crawl_lateness_seconds", "Start of a visit after its instant.",
			.001, .01, .1, .5, 1, 5, 30, 120, 600),
		age: histogram("description_age_seconds",
			"Age that a description had reached when it was verified again.",
			1, 10, 60, 300, 900, 3600, 14400, 43200, 86400, 259200, 604800),
		eventLatency: histogram("event_latency_seconds",
			"Crawl after publication, where descriptions carry their publish times.",
			1, 10, 60, 300, 900, 3600, 14400, 43200, 86400),
		datagrams: counterVec("datagrams_total", "UDP datagrams of visits.", "direction"),
		bytes:     counterVec("bytes_total", "UDP payload bytes of visits.", "direction"),
		retrans:   counter("retransmissions_total", "Requests that were sent again."),
		jumps:     counter("clock_jumps_total", "Jumps of the wall clock beyond a minute."),
		storeFailures: counter("store_failures_total",
			"Outcomes that could not be committed; the sensors are crawled again."),
		planDuration: histogram("plan_duration_seconds", "How long solving a range took.",
			.001, .01, .1, 1, 10, 60),
		planFailures: counter("plan_failures_total", "Ranges that could not be solved."),
		planTime: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "crawld_plan_last_success_timestamp_seconds", Help: "When a plan was last adopted."}),
	}
	for _, r := range visit.Results() {
		m.crawls.WithLabelValues(r.String())
	}
	for _, k := range visit.Kinds() {
		m.attempts.WithLabelValues(k.String())
	}
	reg.MustRegister(m.crawls, m.attempts, m.duration, m.lateness, m.age, m.eventLatency,
		m.datagrams, m.bytes, m.retrans, m.jumps, m.storeFailures, m.planDuration,
		m.planFailures, m.planTime, &fleetCollector{c: c})
	return m
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "crawld_" + name, Help: help})
}

func counterVec(name, help, label string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(
		prometheus.CounterOpts{Name: "crawld_" + name, Help: help}, []string{label})
}

// histogram is both native and classic, so that old and new servers read it.
func histogram(name, help string, buckets ...float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "crawld_" + name, Help: help,
		Buckets: buckets, NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100})
}

func (m *metrics) started(v visit.Visit, now time.Time) {
	m.attempts.WithLabelValues(v.Kind.String()).Inc()
	m.lateness.Observe(max(0, now.Sub(v.At).Seconds()))
}

func (m *metrics) observed(o visit.Outcome, source time.Time) {
	m.crawls.WithLabelValues(o.Result.String()).Inc()
	if o.Result == visit.Missed {
		return
	}
	m.duration.Observe(o.Took().Seconds())
	m.datagrams.WithLabelValues("sent").Add(float64(o.DatagramsSent))
	m.datagrams.WithLabelValues("received").Add(float64(o.DatagramsReceived))
	m.bytes.WithLabelValues("sent").Add(float64(o.BytesSent))
	m.bytes.WithLabelValues("received").Add(float64(o.BytesReceived))
	m.retrans.Add(float64(o.Retransmissions))
	if !o.Result.Success() {
		return
	}
	if !source.IsZero() {
		m.age.Observe(max(0, o.Started.Sub(source).Seconds()))
	}
	for _, t := range o.PublishedAt {
		if t.After(source) {
			m.eventLatency.Observe(max(0, o.Started.Sub(t).Seconds()))
		}
	}
}

func (m *metrics) planned(now time.Time) {
	m.planTime.Set(float64(now.UnixMilli()) / 1000)
}

// fleetCollector reads the planner's status when it is scraped.
type fleetCollector struct{ c *Crawler }

var (
	sensorsDesc = prometheus.NewDesc("crawld_sensors", "Sensors by state.", []string{"state"}, nil)
	budgetDesc  = prometheus.NewDesc("crawld_plan_budget_crawls",
		"Budget (theta) of the running range.", nil, nil)
	usedDesc = prometheus.NewDesc("crawld_plan_budget_used_crawls",
		"Attempts of the running range that count against its budget.", nil, nil)
	plannedDesc = prometheus.NewDesc("crawld_plan_planned_crawls",
		"Crawls of the running range's plan as adopted.", nil, nil)
	priceDesc = prometheus.NewDesc("crawld_plan_price_seconds",
		"Price of a crawl in weighted latency seconds.", nil, nil)
	expectedDesc = prometheus.NewDesc("crawld_plan_expected_latency_seconds",
		"Weighted latency summed over the events expected in the running range.", nil, nil)
	eventsDesc = prometheus.NewDesc("crawld_plan_expected_events",
		"Events expected in the running range.", nil, nil)
	inflightDesc = prometheus.NewDesc("crawld_visits_in_flight", "Visits under way.", nil, nil)
	replansDesc  = prometheus.NewDesc("crawld_replans_total",
		"Single sensors planned anew within a range.", nil, nil)
	droppedDesc = prometheus.NewDesc("crawld_crawls_dropped_total",
		"Crawls given up because the budget was needed elsewhere.", nil, nil)
	learnersDesc = prometheus.NewDesc("crawld_sensors_hidden",
		"Sensors that hide their sleep plan, by what is done to learn it.", []string{"learner"}, nil)
	claimsDesc = prometheus.NewDesc("crawld_sleep_plans_claimed_total",
		"Sleep plans learned.", nil, nil)
	revokedDesc = prometheus.NewDesc("crawld_sleep_plans_revoked_total",
		"Learned sleep plans taken back after silence in the middle of two windows.", nil, nil)
)

func (f *fleetCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sensorsDesc, budgetDesc, usedDesc, plannedDesc, priceDesc,
		expectedDesc, eventsDesc, inflightDesc, replansDesc, droppedDesc, learnersDesc, claimsDesc,
		revokedDesc} {
		ch <- d
	}
}

// Collect leaves the gauges out when the loop does not answer in time: a scrape
// must not hang with it.
func (f *fleetCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var st planner.Status
	err := f.c.Do(ctx, func(p *planner.Planner, now time.Time) { st = p.Status(now) })
	if err != nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for state, n := range st.States {
		gauge(sensorsDesc, float64(n), string(state))
	}
	for state, n := range st.Learners {
		gauge(learnersDesc, float64(n), state)
	}
	gauge(budgetDesc, float64(st.Theta))
	gauge(usedDesc, float64(st.Spent))
	gauge(plannedDesc, float64(st.Planned))
	gauge(priceDesc, st.Price)
	gauge(expectedDesc, st.Expected)
	gauge(eventsDesc, st.Events)
	gauge(inflightDesc, float64(st.InFlight))
	count := func(d *prometheus.Desc, n uint64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n))
	}
	count(replansDesc, st.Replans)
	count(droppedDesc, st.Dropped)
	count(claimsDesc, st.Claims)
	count(revokedDesc, st.Revoked)
}
