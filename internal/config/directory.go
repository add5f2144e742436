package config

import (
	"net/netip"
	"time"

	"go.yaml.in/yaml/v3"
)

// Directory is the CoAP Resource Directory (RFC 9176). It is off while Listen is empty.
type Directory struct {
	Listen          []string      // host:port, CoAP over UDP; the host may be empty, the port 0
	DefaultLifetime time.Duration // of registrations that name none; whole seconds, at least 1 s
	Networks        []netip.Prefix
}

// defaultLifetime is the lt of RFC 9176 section 5: 25 hours, so that a daily update is in
// time.
const defaultLifetime = 90000 * time.Second

func (r *Directory) fields() fields {
	return fields{
		"listen": r.listen,
		"default_lifetime": func(v value) {
			var x time.Duration
			if !v.duration(&x, time.Second, maxDuration) {
				return
			}
			if x%time.Second != 0 {
				v.fail("%s is no whole number of seconds; lifetimes have no fractions", clip(v.node.Value))
				return
			}
			r.DefaultLifetime = x
		},
		"networks": prefixes(&r.Networks),
	}
}

// listen takes one address, several in a list, or "" for none.
func (r *Directory) listen(v value) {
	if v.node.Kind == yaml.ScalarNode {
		if v.plain() && v.node.Value == "" && v.node.ShortTag() == "!!str" {
			return
		}
		r.address(v)
		return
	}
	v.list("addresses such as 0.0.0.0:5683", func(_ int, v value) { r.address(v) })
}

func (r *Directory) address(v value) {
	var s string
	if v.hostPort(&s, "host:port such as 0.0.0.0:5683") {
		r.Listen = append(r.Listen, s)
	}
}

func (r *Directory) check(d *decoder) {
	d.require(len(r.Listen) == 0 || len(r.Networks) > 0, []string{"directory.listen"},
		"directory.networks is empty: nobody could ask; name the networks of sensors and clients")
}

func (r Directory) text() string {
	return "directory:\n  listen: [" + join(r.Listen, quote) + "]\n  default_lifetime: " +
		formatDuration(r.DefaultLifetime) + "\n  networks: [" +
		join(r.Networks, quotePrefix) + "]"
}
