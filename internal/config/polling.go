package config

import (
	"strings"
	"time"

	"github.com/crawld/crawld/internal/fleet"
)

// pollingFields are the keys of polling: the fleet's, or what a sensor has of its own.
func pollingFields(p *fleet.Polling) fields {
	gap := func(dst *time.Duration) func(value) {
		return func(v value) { v.duration(dst, time.Millisecond, maxDuration) }
	}
	return fields{
		"policy": func(v value) {
			v.word(&p.Policy, PolicyHZ, PolicyBB, PolicyDPTA, PolicyDPTN, PolicyDPTL, PolicyBimodal,
				PolicyFixed)
		},
		"bootstrap": gap(&p.Bootstrap),
		"min_gap":   gap(&p.MinGap),
		"max_gap":   gap(&p.MaxGap),
		"price":     func(v value) { v.duration(&p.Price, 0, maxDuration) },
		"polls_per_publication": func(v value) {
			load := p.PollsPerPublication
			switch v.number(&load, 0, 100); {
			case load > 0 && load < 0.05:
				v.fail("%s is out of range; expected 0 (none) or 0.05 .. 100", clip(v.node.Value))
			default:
				p.PollsPerPublication = load
			}
		},
		"sd":            func(v value) { v.word(&p.SD, SDFolded, SDRaw) },
		"desync":        func(v value) { v.duration(&p.Desync, 0, maxDuration) },
		"publish_times": func(v value) { publishTimes(v, &p.PublishTimes) },
	}
}

// publishTimes reads auto, true or false; YAML has its own type for the latter.
func publishTimes(v value, dst *string) {
	if v.is(PublishAuto) {
		*dst = PublishAuto
		return
	}
	if _, ok := v.scalar("auto, true or false", "!!bool"); ok {
		*dst = strings.ToLower(v.node.Value)
	}
}

// checkPolling holds the keys of polling against each other. A price that is set takes
// the place of the default load.
func checkPolling(d *decoder, p *fleet.Polling) {
	if _, set := d.seen["polling.polls_per_publication"]; !set && p.Price > 0 {
		p.PollsPerPublication = 0
	}
	d.require(p.MinGap <= p.MaxGap, []string{"polling.min_gap", "polling.max_gap"},
		"min_gap %s is longer than max_gap %s; swap or change them",
		formatDuration(p.MinGap), formatDuration(p.MaxGap))
	d.require(p.Price == 0 || p.PollsPerPublication == 0,
		[]string{"polling.price", "polling.polls_per_publication"},
		"price %s and polls_per_publication %s exclude each other; set one of them to 0",
		formatDuration(p.Price), formatFloat(p.PollsPerPublication))
}
