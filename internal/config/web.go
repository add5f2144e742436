package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Web is the HTTP side. Each key is a flag of `crawld run` too, which wins; their meaning is
// that of the flags with the same names of exporters and of Prometheus.
type Web struct {
	Listen        []string // host:port each; the host may be empty, the port 0
	ConfigFile    string   // TLS and basic auth, as of exporter-toolkit; "" = neither
	SystemdSocket bool     // listeners come from systemd instead of Listen
	ExternalURL   string   // how clients reach the pages; "" = as they ask
	RoutePrefix   string   // "" = the path of ExternalURL
}

// External is ExternalURL without a slash at the end of its path; nil if there is none.
func (w *Web) External() *url.URL {
	if w.ExternalURL == "" {
		return nil
	}
	u, err := url.Parse(w.ExternalURL)
	if err != nil {
		return nil // not reached: Check has seen it
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return u
}

// Prefix is what the path of every route begins with: "" or a path such as /crawld.
func (w *Web) Prefix() string {
	prefix := w.RoutePrefix
	if u := w.External(); prefix == "" && u != nil {
		prefix = u.Path
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		return "/" + prefix
	}
	return ""
}

// Check tells what is wrong with values that may have come from flags.
func (w *Web) Check() error {
	if len(w.Listen) == 0 && !w.SystemdSocket {
		return errors.New("web.listen: no address")
	}
	for _, address := range w.Listen {
		if err := checkListen(address); err != nil {
			return fmt.Errorf("web.listen: %w", err)
		}
	}
	if err := checkExternal(w.ExternalURL); err != nil {
		return fmt.Errorf("web.external_url: %w", err)
	}
	if err := checkRoutePrefix(w.RoutePrefix); err != nil {
		return fmt.Errorf("web.route_prefix: %w", err)
	}
	return nil
}

const wantListen = "host:port such as 127.0.0.1:9683"

func checkListen(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("found the text %q, expected %s", clip(address), wantListen)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("port %q: expected a number in 0 .. 65535", clip(port))
	}
	return nil
}

// checkExternal wants what links can begin with.
func checkExternal(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("found %q, expected a URL such as https://crawld.example/", clip(text))
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%q: has more than scheme, host, port and path", clip(text))
	}
	return checkRoutePrefix(u.EscapedPath())
}

// checkRoutePrefix wants a path that means the same to everybody: no escapes, no dots to
// resolve, no empty segments but at its ends.
func checkRoutePrefix(text string) error {
	path := strings.Trim(text, "/")
	if path == "" {
		return nil
	}
	for segment := range strings.SplitSeq(path, "/") {
		rest := strings.Trim(segment,
			"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")
		if segment == "" || segment == "." || segment == ".." || rest != "" {
			return fmt.Errorf("path %q: expected segments of A-Z a-z 0-9 - . _ ~", clip(text))
		}
	}
	return nil
}

func (c *Config) webFields() fields {
	w := &c.Web
	return fields{
		"listen":         w.listen,
		"config_file":    c.webConfigFile,
		"systemd_socket": func(v value) { v.boolean(&w.SystemdSocket) },
		"external_url":   checkedText(&w.ExternalURL, "a URL", checkExternal),
		"route_prefix":   checkedText(&w.RoutePrefix, "a path such as /crawld", checkRoutePrefix),
	}
}

// checkedText reads text, which may be empty, that passes a check.
func checkedText(dst *string, want string, check func(string) error) func(value) {
	return func(v value) {
		s, ok := v.scalar(want, "!!str")
		if !ok {
			return
		}
		if err := check(s); err != nil {
			v.fail("%v", err)
			return
		}
		*dst = s
	}
}

// listen takes one address, or a list of them.
func (w *Web) listen(v value) {
	var addresses []string
	add := func(_ int, v value) {
		var s string
		if !v.text(&s, wantListen) {
			return
		}
		if err := checkListen(s); err != nil {
			v.fail("%v", err)
			return
		}
		addresses = append(addresses, s)
	}
	if v.node.Kind != yaml.SequenceNode {
		add(0, v)
	} else if v.list("addresses", add) && len(v.node.Content) == 0 {
		v.fail("is an empty list; expected %s", wantListen)
	}
	if len(addresses) > 0 {
		w.Listen = addresses
	}
}

// webConfigFile makes the path absolute, as those of other files.
func (c *Config) webConfigFile(v value) {
	s, ok := v.scalar("a file such as web.yaml", "!!str")
	if !ok {
		return
	}
	if s != "" {
		if s, ok = c.absolute(v, s); !ok {
			return
		}
	}
	c.Web.ConfigFile = s
}
