package dpt

import (
	"strings"
	"testing"
	"time"
)

func TestParsePolicy(t *testing.T) {
	for _, name := range []string{"dpt-n", "fixed"} {
		if p, err := ParsePolicy(name); err != nil || string(p) != name {
			t.Errorf("%s: %q, %v", name, p, err)
		}
	}
	_, err := ParsePolicy("dpt-x")
	if err == nil || err.Error() != `unknown policy "dpt-x": use one of dpt-n, fixed` {
		t.Errorf("got %v", err)
	}
}

func TestValidate(t *testing.T) {
	if err := testParams().Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Params){
		"unknown policy": func(p *Params) { p.Policy = "" },
		"min gap":        func(p *Params) { p.MinGap = time.Microsecond },
		"max gap":        func(p *Params) { p.MaxGap = time.Second },
		"window":         func(p *Params) { p.Window = 3 },
		"period tries":   func(p *Params) { p.PeriodTries = -1 },
	} {
		p := testParams()
		change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}
