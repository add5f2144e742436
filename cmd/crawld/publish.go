package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/spf13/cobra"
)

const maxTokenFile = 4 << 10

func publishCommand() *cobra.Command {
	var s server
	var keyFile string
	cmd := &cobra.Command{
		Use:   "publish FILE|-",
		Short: "Sign an EPCIS 2.0 document and publish its events",
		Long: `Publish signs an EPCIS 2.0 JSON document with a key that crawld keygen has made (compact
JWS, EdDSA), posts it to the daemon and prints what was stored. An event that is there
already is not stored again. Exit code 0: all of it is stored; 3: the daemon refuses the
document, the key or the token, and nothing was stored; 1: it could not be asked, or it
could not store. Then the same may be published again.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if keyFile == "" {
				return usage(errors.New("--key FILE is needed: the private key that signs"))
			}
			document, err := readBounded(args[0], cmd.InOrStdin(), maxDocument)
			if err != nil {
				return err
			}
			key, err := readKey(keyFile)
			if err != nil {
				return err
			}
			signed, err := sign(document, key)
			if err != nil {
				return err
			}
			return s.publish(cmd, signed)
		},
	}
	s.flags(cmd)
	s.tokenFlag(cmd)
	cmd.Flags().StringVar(&keyFile, "key", "", "private key, a JWK file (needed)")
	outputFlag(cmd, "table", "json")
	return cmd
}

// sign makes a compact JWS of a document.
func sign(document []byte, key jose.JSONWebKey) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key}, nil)
	if err != nil {
		return "", err
	}
	jws, err := signer.Sign(document)
	if err != nil {
		return "", err
	}
	return jws.CompactSerialize()
}

// publishReport is the daemon's answer.
type publishReport struct {
	Events []struct {
		EventID string `json:"event_id"`
		Stored  bool   `json:"stored"`
	} `json:"events"`
}

func (s *server) publish(cmd *cobra.Command, signed string) error {
	status, body, err := s.ask(cmd.Context(), http.MethodPost, "/events", "application/jose",
		[]byte(signed))
	if err != nil {
		return err
	}
	if status != http.StatusOK && status != http.StatusCreated {
		err := fmt.Errorf("refused: %d %s: %s", status, http.StatusText(status), answerText(body))
		if status < http.StatusInternalServerError {
			return invalid(err)
		}
		return err
	}
	if output(cmd) == "json" {
		return printJSON(cmd.OutOrStdout(), json.RawMessage(body))
	}
	var report publishReport
	if err := decodeAnswer(body, &report); err != nil {
		return err
	}
	return table(cmd.OutOrStdout(), func(row func(...any)) {
		row("EVENT", "STORED")
		for _, e := range report.Events {
			row(e.EventID, map[bool]string{true: "now", false: "before"}[e.Stored])
		}
	})
}

// tokenFlag adds --token-file.
func (s *server) tokenFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.tokenFile, "token-file", "", "file with the bearer token")
}

// token reads the bearer token, "" if no file was named.
func (s *server) token() (string, error) {
	if s.tokenFile == "" {
		return "", nil
	}
	text, err := readBounded(s.tokenFile, nil, maxTokenFile)
	if err != nil {
		return "", err
	}
	text = bytes.TrimSpace(text)
	if len(text) == 0 || strings.ContainsAny(string(text), " \t\r\n") {
		return "", invalid(errors.New(s.tokenFile + ": expected one token"))
	}
	return string(text), nil
}
