package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/crawld/crawld/internal/app"
	"github.com/crawld/crawld/internal/coapclient"
	"github.com/crawld/crawld/internal/config"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/visit"
)

// probeResult is one visit. Sizes are UDP payload bytes.
type probeResult struct {
	URI               string       `json:"uri"`
	Outcome           visit.Result `json:"outcome"`
	Contact           bool         `json:"contact"`
	Code              string       `json:"code"`
	Unchanged         bool         `json:"unchanged"`
	ETag              string       `json:"etag"` // hex
	MaxAge            *float64     `json:"max_age_seconds"`
	BodyBytes         int          `json:"body_bytes"`
	BodySHA256        string       `json:"body_sha256"`
	Links             int          `json:"links"`
	DatagramsSent     int          `json:"datagrams_sent"`
	DatagramsReceived int          `json:"datagrams_received"`
	BytesSent         int          `json:"bytes_sent"`
	BytesReceived     int          `json:"bytes_received"`
	Retransmissions   int          `json:"retransmissions"`
	Blocks            int          `json:"blocks"`
	RTT               *float64     `json:"rtt_seconds"`
	Error             *string      `json:"error"`
	Transcript        []visit.Line `json:"transcript,omitempty"` // with --transcript
}

// probeFlags are what a probe can be told.
type probeFlags struct {
	deadline   time.Duration
	transcript bool
	config     string
	credential string
}

func probeCommand() *cobra.Command {
	var f probeFlags
	cmd := &cobra.Command{
		Use:   "probe URI",
		Short: "Visit one sensor now and tell what came of it",
		Long: `Probe makes one visit as the daemon would: a confirmable GET with retransmission
and block-wise transfer. A secure sensor (coaps://, coaps+tcp://) is met with a
credential of the configuration, by a handshake. Nothing is stored. Exit code 0
if a description came back, 4 if the sensor gave none, 3 if the URI cannot be
asked.

With --transcript every datagram is shown: when, which way, type, code, Message ID,
token, options, payload. With --output jsonl each is a line of JSON, and so is the
result, which comes last.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			res, err := probe(cmd.Context(), args[0], f)
			if err != nil {
				return err
			}
			switch output(cmd) {
			case "json":
				err = printJSON(cmd.OutOrStdout(), res)
			case "jsonl":
				err = probeLines(cmd.OutOrStdout(), res)
			default:
				err = probeTable(cmd, res)
			}
			if err == nil && !res.Outcome.Success() {
				return unhealthy(errSilent)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&f.transcript, "transcript", false, "show every datagram")
	cmd.Flags().DurationVar(&f.deadline, "deadline", 10*time.Second,
		"end the visit after this long, at most 93s")
	cmd.Flags().StringVarP(&f.config, "config", "c", "", "configuration file with credentials (YAML)")
	cmd.Flags().StringVar(&f.credential, "credential", "",
		"id of the credential (default: the first that is for the URI's host)")
	outputFlag(cmd, "json", "jsonl", "table")
	return cmd
}

func probe(ctx context.Context, raw string, f probeFlags) (probeResult, error) {
	if f.deadline <= 0 || f.deadline > coapclient.MaxVisit {
		return probeResult{}, usage(fmt.Errorf("--deadline %v: must lie in 0 .. 93s", f.deadline))
	}
	u, err := fleet.ParseURI(raw)
	if err != nil {
		return probeResult{}, invalid(err)
	}
	credentials, credential, err := f.credentials(u.String())
	if err != nil {
		return probeResult{}, invalid(err)
	}
	client, err := coapclient.New(coapclient.Options{Credentials: credentials,
		Transcript: f.transcript})
	if err != nil {
		return probeResult{}, err
	}
	defer client.Close()
	now := time.Now()
	o := client.Fetch(ctx, visit.Visit{Sensor: u.String(), URI: u.String(), At: now,
		Deadline: now.Add(f.deadline), Kind: visit.Manual, Retrans: 4, Full: true,
		Credential: credential})
	res := probeResult{URI: u.String(), Outcome: o.Result, Contact: o.Contact, Code: o.Code,
		Unchanged: o.Result == visit.Unchanged, ETag: fmt.Sprintf("%x", o.NewETag),
		BodyBytes: len(o.Body), BodySHA256: o.Hash, Links: o.Links,
		DatagramsSent: o.DatagramsSent, DatagramsReceived: o.DatagramsReceived,
		BytesSent: o.BytesSent, BytesReceived: o.BytesReceived,
		Retransmissions: o.Retransmissions, Blocks: o.Blocks, Transcript: o.Transcript}
	if n := client.Stats().Strangers; n > 0 && f.transcript {
		res.Transcript = append(res.Transcript, visit.Line{Offset: o.Took().Seconds(),
			Note: fmt.Sprintf("%d datagrams came from elsewhere, or too late", n)})
	}
	if o.HasMaxAge {
		res.MaxAge = seconds(o.MaxAge)
	}
	if o.RTT > 0 {
		res.RTT = seconds(o.RTT)
	}
	if o.Error != "" {
		res.Error = &o.Error
	}
	return res, nil
}

// credentials reads those of the configuration and chooses the URI's.
func (f probeFlags) credentials(uri string) ([]coapclient.Credential, string, error) {
	if !fleet.Secure(uri) && f.credential == "" {
		return nil, "", nil
	}
	if f.config == "" {
		return nil, "", fmt.Errorf("%s: a secure sensor is met with a credential; "+
			"give --config FILE", uri)
	}
	c, err := config.Load(f.config)
	if err != nil {
		return nil, "", err
	}
	id, err := c.Credential(uri, f.credential)
	if err != nil {
		return nil, "", err
	}
	list, _, err := app.Credentials(c)
	return list, id, err
}

func seconds(d time.Duration) *float64 {
	s := d.Seconds()
	return &s
}

// probeLines writes a line of JSON for each line of the transcript, then the result.
func probeLines(w io.Writer, res probeResult) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, l := range res.Transcript {
		if err := enc.Encode(l); err != nil {
			return err
		}
	}
	res.Transcript = nil
	return enc.Encode(res)
}

func probeTable(cmd *cobra.Command, res probeResult) error {
	for _, l := range res.Transcript {
		fmt.Fprintln(cmd.OutOrStdout(), l)
	}
	return table(cmd.OutOrStdout(), func(row func(...any)) {
		row("sensor", res.URI)
		row("outcome", fmt.Sprint(res.Outcome, " ", res.Code))
		if res.Error != nil {
			row("error", *res.Error)
		}
		row("body", fmt.Sprintf("%d bytes, %d links, sha256 %s", res.BodyBytes, res.Links,
			res.BodySHA256))
		row("sent", fmt.Sprintf("%d datagrams, %d bytes, %d retransmissions", res.DatagramsSent,
			res.BytesSent, res.Retransmissions))
		row("received", fmt.Sprintf("%d datagrams, %d bytes, %d blocks", res.DatagramsReceived,
			res.BytesReceived, res.Blocks))
		if res.RTT != nil {
			row("rtt", time.Duration(*res.RTT*1e9).Round(10*time.Microsecond))
		}
	})
}
