package config

import (
	"errors"
	"io/fs"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	// maxTicks keeps a range, its carry, and the look-ahead of a small budget (up to
	// nine times the range) within the horizon that the optimiser's integers hold.
	maxTicks = 10_000_000
	maxRate  = 1e6 // per second, as in package fleet
	// minStore is the least quota: bbolt allocates in steps of 16 MiB.
	minStore = 64 << 20
	// autoGuard is used until a sensor's own is learned; the planner never lets
	// it take more than half a window.
	autoGuard = 2 * time.Second
)

// Load reads and validates one crawld.yaml. The error is of type Errors.
func Load(path string) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse is Load on a text; name is what errors call it, and its folder is what
// relative sensor_files start from. The error is of type Errors.
func Parse(name string, data []byte) (*Config, error) {
	d := &decoder{problems: problems{file: name}, seen: map[string]*yaml.Node{}}
	root := d.tree(data)
	if root == nil {
		return nil, d.err()
	}
	c := Default()
	c.Path = name
	value{d: d, node: root}.mapping(c.fields())
	if len(d.list) == 0 && len(c.SensorFiles) == 0 {
		d.add(root.Line, root.Column, "sensor_files",
			"is missing; name at least one list such as sensors/*.yaml")
	}
	c.Planner.check(d)
	checkPolling(d, &c.Polling)
	c.Directory.check(d)
	if err := d.err(); err != nil {
		return nil, err
	}
	return &c, nil
}

func readFile(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err == nil {
		return data, nil
	}
	if pe := new(fs.PathError); errors.As(err, &pe) {
		err = pe.Err // the path is in the error's place already
	}
	return nil, Errors{{File: path, Msg: "cannot be read: " + err.Error()}}
}

func (c *Config) fields() fields {
	return fields{
		"sensor_files": c.sensorFiles,
		"data":         func(v value) { v.text(&c.Data, "a file such as crawld.db") },
		"planner":      func(v value) { v.mapping(c.Planner.fields()) },
		"polling":      func(v value) { v.mapping(pollingFields(&c.Polling)) },
		"groups":       c.groups,
		"publishers":   c.publishers,
		"readers":      c.readers,
		"credentials":  c.sensorCredentials,
		"store":        func(v value) { v.mapping(c.Store.fields()) },
		"web":          func(v value) { v.mapping(c.webFields()) },
		"directory":    func(v value) { v.mapping(c.Directory.fields()) },
		"networks": func(v value) {
			v.mapping(fields{"allow": prefixes(&c.Networks.Allow), "deny": prefixes(&c.Networks.Deny)})
		},
		"limits": func(v value) { v.mapping(c.Limits.fields()) },
		"log": func(v value) {
			v.mapping(fields{
				"level":  func(v value) { v.word(&c.Log.Level, "debug", "info", "warn", "error") },
				"format": func(v value) { v.word(&c.Log.Format, "auto", "json", "console") },
			})
		},
	}
}

func (p *Planner) fields() fields {
	return fields{
		"range":     func(v value) { v.duration(&p.Range, time.Second, maxDuration) },
		"budget":    p.budget,
		"end":       func(v value) { v.word(&p.End, EndLookahead, EndCarry, EndFixed) },
		"guard":     p.guard,
		"step":      p.step,
		"tick":      p.tick,
		"capacity":  p.capacity,
		"objective": func(v value) { v.word(&p.Objective, ObjectiveExact, ObjectivePaper) },
		"candidates": func(v value) {
			v.word(&p.Candidates, CandidatesEnds, CandidatesGrid)
		},
	}
}

func (s *Store) fields() fields {
	return fields{
		"max_size": func(v value) {
			if v.is("none") {
				s.MaxSize = 0
			} else {
				v.size(&s.MaxSize, minStore, math.MaxInt>>20<<20)
			}
		},
		"ballast": func(v value) { v.size(&s.Ballast, 0, 1<<30) },
	}
}

func (l *Limits) fields() fields {
	return fields{
		"body":       func(v value) { v.size(&l.Body, 64, 64<<20) },
		"blocks":     func(v value) { v.integer(&l.Blocks, 1, 1<<20) },
		"block_min":  l.blockMin,
		"progress":   func(v value) { v.duration(&l.Progress, 100*time.Millisecond, 5*time.Minute) },
		"per_host":   func(v value) { v.integer(&l.PerHost, 1, math.MaxUint16) },
		"per_subnet": func(v value) { v.integer(&l.PerSubnet, 1, 1<<20) },
	}
}

// blockMin takes the block sizes of RFC 7959 section 2.2 only.
func (l *Limits) blockMin(v value) {
	var n int
	if !v.integer(&n, 16, 1024) {
		return
	}
	if n&(n-1) != 0 {
		v.fail("%d is no block size; expected 16, 32, 64, 128, 256, 512 or 1024", n)
		return
	}
	l.BlockMin = n
}

func (p *Planner) budget(v value) {
	const want = "a number of crawls per range such as 1000, or 4/sensor"
	s, ok := v.scalar(want, "!!str", "!!int", "!!float")
	if !ok {
		return
	}
	head, unit, per := strings.Cut(s, "/")
	x, err := parseFloat(head)
	switch {
	case err != nil || per && strings.TrimSpace(unit) != "sensor":
		v.wrongType(want)
	case !(x > 0):
		v.fail("%s crawls would never visit a sensor; expected more than 0", clip(s))
	case per && x > 1e6 || !per && x > math.MaxInt32:
		v.fail("%s is out of range; expected at most 1000000/sensor or %d", clip(s), math.MaxInt32)
	case !per && x != math.Trunc(x):
		v.fail("%s is no whole number of crawls; write a whole number or N/sensor", clip(s))
	default:
		p.Budget, p.BudgetPerSensor = x, per
	}
}

func (p *Planner) guard(v value) {
	if v.is("auto") {
		p.Guard, p.GuardAuto = autoGuard, true
	} else if v.duration(&p.Guard, 0, maxDuration) {
		p.GuardAuto = false
	}
}

func (p *Planner) tick(v value) {
	if v.is("auto") {
		p.Tick = 0
	} else {
		v.duration(&p.Tick, time.Millisecond, maxDuration)
	}
}

func (p *Planner) step(v value) {
	if !v.plain() {
		return
	}
	head, ok := strings.CutSuffix(strings.TrimSuffix(v.node.Value, "s"), "tick")
	if !ok || v.node.Kind != yaml.ScalarNode {
		var step time.Duration
		if v.duration(&step, time.Millisecond, maxDuration) {
			p.Step = Step{Duration: step}
		}
		return
	}
	n, err := strconv.ParseInt(strings.TrimSpace(head), 10, 64)
	if err != nil || n < 1 || n > maxTicks {
		v.fail("found %s, expected 1tick .. %dtick, or a duration", describe(v.node), maxTicks)
		return
	}
	p.Step = Step{Ticks: n}
}

func (p *Planner) capacity(v value) {
	x := -1.0
	if v.rate(&x, maxRate); x == 0 {
		v.fail("is 0: no crawl could ever start; expected a rate such as 500/s")
	} else if x > 0 {
		p.Capacity = x
	}
}

// check holds the keys of the planner against each other.
func (p *Planner) check(d *decoder) {
	tick, show := p.ResolvedTick(), formatDuration
	rangeTick := []string{"planner.range", "planner.tick"}
	stepTick := []string{"planner.step", "planner.tick"}
	switch {
	case p.Range < tick:
		d.require(false, rangeTick, "the range %s is shorter than the tick %s; change one of them",
			show(p.Range), show(tick))
	case p.Range%tick != 0:
		d.require(false, rangeTick, "the range %s is no multiple of the tick %s; change one of them",
			show(p.Range), show(tick))
	case p.Range/tick > maxTicks:
		d.require(false, rangeTick, "the range %s has more than %d ticks of %s; lengthen the tick",
			show(p.Range), maxTicks, show(tick))
	case p.Step.Duration%tick != 0:
		d.require(false, stepTick, "the step %s is no multiple of the tick %s; change one of them",
			show(p.Step.Duration), show(tick))
	case p.StepTicks() > int64(p.Range/tick):
		d.require(false, append(stepTick, "planner.range"),
			"the range %s is shorter than one step of %d ticks of %s; shorten the step",
			show(p.Range), p.StepTicks(), show(tick))
	}
	d.require(p.GuardAuto || p.Guard < p.Range, []string{"planner.guard", "planner.range"},
		"the guard %s leaves nothing of the range %s; shorten the guard", show(p.Guard), show(p.Range))
}

// hostPort reads an address to listen on.
func (v value) hostPort(dst *string, want string) bool {
	var s string
	if !v.text(&s, want) {
		return false
	}
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		v.wrongType(want)
		return false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		v.fail("port %q: expected a number in 0 .. 65535", clip(port))
		return false
	}
	*dst = s
	return true
}

func prefixes(dst *[]netip.Prefix) func(value) {
	const want = "a network such as 192.0.2.0/24 or 2001:db8::/32"
	return func(v value) {
		v.list("networks (CIDR prefixes)", func(_ int, v value) {
			var s string
			if !v.text(&s, want) {
				return
			}
			p, err := netip.ParsePrefix(s)
			switch {
			case err != nil:
				v.wrongType(want)
			case p != p.Masked():
				v.fail("%s has bits set beyond the prefix; write %s", s, p.Masked())
			default:
				*dst = append(*dst, p)
			}
		})
	}
}

// sensorFiles makes patterns absolute, so that they mean the same wherever and
// whenever they are used.
func (c *Config) sensorFiles(v value) {
	dir, ok := c.absolute(v, "")
	if !ok {
		return
	}
	ok = v.list("files, globs allowed", func(_ int, v value) {
		var s string
		if !v.text(&s, "a file such as list.txt or sensors/*.yaml") {
			return
		}
		if !filepath.IsAbs(s) {
			s = filepath.Join(escapeGlob(dir), s)
		}
		s = filepath.Clean(s)
		if _, err := filepath.Match(s, ""); err != nil || strings.ContainsRune(s, 0) {
			v.fail("%s is no valid pattern; look at its brackets and backslashes", clip(v.node.Value))
			return
		}
		c.SensorFiles = append(c.SensorFiles, s)
	})
	if ok && len(v.node.Content) == 0 {
		v.fail("is an empty list; name at least one file such as sensors/*.yaml")
	}
}

// absolute is a name of a file, which starts from the configuration's folder if it is
// relative.
func (c *Config) absolute(v value, name string) (_ string, ok bool) {
	if filepath.IsAbs(name) {
		return name, true
	}
	dir, err := filepath.Abs(filepath.Dir(c.Path))
	if err != nil {
		v.fail("cannot tell the folder of this file: %v", err)
		return "", false
	}
	return filepath.Join(dir, name), true
}

// escapeGlob makes a folder's name stand for itself in a pattern.
func escapeGlob(dir string) string {
	if filepath.Separator == '\\' {
		return dir // no escapes there; brackets in folder names stay a limit
	}
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(dir)
}
