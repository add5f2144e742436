package config

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// YAML is the configuration in force, defaults filled in, in the shape of
// crawld.yaml. Parse makes an equal Config of it. There is nothing secret in
// it: secrets stand in files of their own, and only their names are shown.
func (c *Config) YAML() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("sensor_files: [%s]", join(c.SensorFiles, quote))
	line("data: %s", quote(c.Data))
	p := c.Planner
	line("planner:\n  range: %s\n  budget: %s\n  end: %s\n  guard: %s\n  candidates: %s",
		formatDuration(p.Range), p.budgetText(), p.End, p.guardText(), p.Candidates)
	line("  objective: %s", p.Objective)
	line("  step: %s\n  tick: %s\n  capacity: %s/s",
		p.stepText(), p.tickText(), formatFloat(p.Capacity))
	line("polling:\n  policy: %s\n  bootstrap: %s\n  min_gap: %s\n  max_gap: %s", c.Polling.Policy,
		formatDuration(c.Polling.Bootstrap), formatDuration(c.Polling.MinGap),
		formatDuration(c.Polling.MaxGap))
	if c.Polling.Price > 0 {
		line("  price: %s", formatDuration(c.Polling.Price))
	} else {
		line("  polls_per_publication: %s", formatFloat(c.Polling.PollsPerPublication))
	}
	line("  sd: %s\n  desync: %s\n  publish_times: %s", c.Polling.SD,
		formatDuration(c.Polling.Desync), c.Polling.PublishTimes)
	line("groups: [%s]", join(c.Groups, Group.text))
	line("publishers: [%s]\nreaders: [%s]", join(c.Publishers, Publisher.text),
		join(c.Readers, Reader.text))
	line("store:\n  max_size: %s\n  ballast: %s", c.Store.maxSizeText(), formatSize(c.Store.Ballast))
	w := c.Web
	line("web:\n  listen: [%s]\n  config_file: %s\n  systemd_socket: %t\n  external_url: %s",
		join(w.Listen, quote), quote(w.ConfigFile), w.SystemdSocket, quote(w.ExternalURL))
	line("  route_prefix: %s", quote(w.RoutePrefix))
	line("%s", c.Directory.text())
	line("networks:\n  allow: [%s]\n  deny: [%s]",
		join(c.Networks.Allow, quotePrefix), join(c.Networks.Deny, quotePrefix))
	line("credentials: [%s]", join(c.SensorCredentials, SensorCredential.text))
	l := c.Limits
	line("limits:\n  body: %s\n  blocks: %d\n  block_min: %d\n  progress: %s",
		formatSize(l.Body), l.Blocks, l.BlockMin, formatDuration(l.Progress))
	line("  per_host: %d\n  per_subnet: %d", l.PerHost, l.PerSubnet)
	line("log:\n  level: %s\n  format: %s", c.Log.Level, c.Log.Format)
	return b.String()
}

func (s Store) maxSizeText() string {
	if s.MaxSize == 0 {
		return "none"
	}
	return formatSize(s.MaxSize)
}

func (g Group) text() string {
	spare := ""
	if g.Spare > 0 {
		spare = fmt.Sprintf(", spare: %d", g.Spare)
	}
	return fmt.Sprintf("{id: %s, members: [%s], at_least: %d%s}", quote(g.ID),
		join(g.Members, quote), g.AtLeast, spare)
}

func (p Planner) budgetText() string {
	if p.BudgetPerSensor {
		return formatFloat(p.Budget) + "/sensor"
	}
	return formatFloat(p.Budget)
}

func (p Planner) guardText() string {
	if p.GuardAuto {
		return "auto"
	}
	return formatDuration(p.Guard)
}

func (p Planner) stepText() string {
	if p.Step.Duration > 0 {
		return formatDuration(p.Step.Duration)
	}
	return strconv.FormatInt(p.StepTicks(), 10) + "tick"
}

func (p Planner) tickText() string {
	if p.Tick == 0 {
		return "auto"
	}
	return formatDuration(p.Tick)
}

func join[T any](xs []T, show func(T) string) string {
	out := make([]string, len(xs))
	for i, x := range xs {
		out[i] = show(x)
	}
	return strings.Join(out, ", ")
}

func quotePrefix(p netip.Prefix) string { return quote(p.String()) }

// quote leaves plain words plain and lets the library quote the rest, in double
// quotes so that it can stand inside a list.
func quote(s string) string {
	n := yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.DoubleQuotedStyle}
	out, err := yaml.Marshal(&n)
	if err != nil {
		return strconv.Quote(s) // not reached: a scalar of text always has a form
	}
	return strings.TrimSpace(string(out))
}
