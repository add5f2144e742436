package dpt

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestParsePolicy(t *testing.T) {
	for _, name := range []string{"dpt-a", "dpt-n", "dpt-l", "bimodal", "hz", "bb", "fixed"} {
		if p, err := ParsePolicy(name); err != nil || string(p) != name {
			t.Errorf("%s: %q, %v", name, p, err)
		}
	}
	_, err := ParsePolicy("dpt-x")
	want := `unknown policy "dpt-x": use one of dpt-a, dpt-n, dpt-l, bimodal, hz, bb, fixed`
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestValidate(t *testing.T) {
	if err := testParams().Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Params){
		`unknown policy "": use one of`:                  func(p *Params) { p.Policy = "" },
		"min gap 1µs: must lie in 1ms .. bootstrap":      func(p *Params) { p.MinGap = time.Microsecond },
		"max gap 1s: must lie in bootstrap (1m0s)":       func(p *Params) { p.MaxGap = time.Second },
		"window 3: must lie in 4 .. 1000":                func(p *Params) { p.Window = 3 },
		"period tries -1: must lie in 1 .. 1000":         func(p *Params) { p.PeriodTries = -1 },
		`unknown sd "both": use one of raw, folded`:      func(p *Params) { p.SD = "both" },
		`unknown publish times "no": use one of auto`:    func(p *Params) { p.PublishTimes = "no" },
		"desync -1ns: must lie in 0s .. max gap (48h0m":  func(p *Params) { p.Desync = -1 },
		"desync 49h0m0s: must lie":                       func(p *Params) { p.Desync = 49 * time.Hour },
		"price -1s: must lie in 0s .. 8784h0m0s":         func(p *Params) { p.Price = -time.Second },
		"price 9000h0m0s: must lie":                      func(p *Params) { p.Price = 9000 * time.Hour },
		"publication 0.01: must be 0 or lie in 0.05 ..":  func(p *Params) { p.PollsPerPublication = .01 },
		"publication NaN: must be 0":                     func(p *Params) { p.PollsPerPublication = math.NaN() },
		"price 1s and polls per publication 1.1 exclude": func(p *Params) { p.Price, p.PollsPerPublication = time.Second, 1.1 },
	} {
		p := testParams()
		change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

// What is stored with a tracker says the same as the parameters.
func TestLimitsKeepParams(t *testing.T) {
	p := Params{
		Policy: HZ, Bootstrap: time.Minute, MinGap: 1500 * time.Microsecond, MaxGap: time.Hour,
		SD: SDRaw, PublishTimes: TimesHide, Desync: 3 * time.Second, PollsPerPublication: 1.2,
	}
	want := limits{
		Policy: HZ, Bootstrap: 60_000, MinGap: 2, MaxGap: 3600_000, Window: 20, PeriodTries: 7,
		Raw: true, Times: TimesHide, Desync: 3000, Polls: 1.2,
	}
	l := newLimits(p)
	if l != want || l.check() != nil {
		t.Errorf("got %+v, %v", l, l.check())
	}
	for _, change := range []func(*limits){
		func(l *limits) { l.Times = "yes" }, func(l *limits) { l.Desync = math.MaxInt64 },
		func(l *limits) { l.Price = 1 }, func(l *limits) { l.MinGap = 0 },
	} {
		bad := l
		change(&bad)
		if bad.check() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
