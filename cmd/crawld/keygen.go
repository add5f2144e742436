package main

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"github.com/go-jose/go-jose/v4"
	"github.com/spf13/cobra"
)

const (
	maxKID     = 128 // bytes, as the configuration takes it
	maxKeyFile = 16 << 10
)

func keygenCommand() *cobra.Command {
	var kid, out string
	cmd := &cobra.Command{
		Use:   "keygen",
		Short: "Make the Ed25519 key that a publisher of events signs with",
		Long: `Keygen writes NAME.jwk, the private key, which nobody but the publisher may have, and
NAME.pub.jwk, its public half, for publishers.key_file of the daemon's configuration. Both
are JWKs (RFC 8037). Files that are there already are left alone.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := keygen(kid, out)
			if err != nil {
				return err
			}
			if output(cmd) == "json" {
				return printJSON(cmd.OutOrStdout(), report)
			}
			return table(cmd.OutOrStdout(), func(row func(...any)) {
				row("kid", report.KID)
				row("private key", report.Private)
				row("public key", report.Public)
			})
		},
	}
	cmd.Flags().StringVar(&kid, "kid", "", "id of the key (default: its RFC 7638 thumbprint)")
	cmd.Flags().StringVar(&out, "out", "publisher", "folder and name of the files, without .jwk")
	outputFlag(cmd, "table", "json")
	return cmd
}

// keyReport is what keygen prints.
type keyReport struct {
	KID     string `json:"kid"`
	Private string `json:"private_key"` // file
	Public  string `json:"public_key"`  // file
}

func keygen(kid, out string) (keyReport, error) {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	if len(kid) > maxKID || strings.ContainsFunc(kid, hidden) {
		return keyReport{}, usage(fmt.Errorf("--kid: expected at most %d printable bytes", maxKID))
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return keyReport{}, err
	}
	key := jose.JSONWebKey{Key: public, KeyID: kid, Algorithm: string(jose.EdDSA), Use: "sig"}
	if kid == "" {
		thumbprint, err := key.Thumbprint(crypto.SHA256)
		if err != nil {
			return keyReport{}, err
		}
		key.KeyID = base64.RawURLEncoding.EncodeToString(thumbprint)
	}
	report := keyReport{key.KeyID, out + ".jwk", out + ".pub.jwk"}
	if err := writeKey(report.Public, 0o644, key); err != nil {
		return report, err
	}
	key.Key = private
	if err := writeKey(report.Private, 0o600, key); err != nil {
		return report, errors.Join(err, os.Remove(report.Public)) // it was made a moment ago
	}
	return report, nil
}

// writeKey writes a file that is not there yet.
func writeKey(path string, mode os.FileMode, key jose.JSONWebKey) error {
	text, err := key.MarshalJSON()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s is there already: a key is never overwritten; choose another --out", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// readKey reads the private half of a key as keygen writes it.
func readKey(path string) (jose.JSONWebKey, error) {
	var key jose.JSONWebKey
	text, err := readBounded(path, nil, maxKeyFile)
	if err != nil {
		return key, err
	}
	if err := key.UnmarshalJSON(text); err != nil { // its error might quote the key
		return key, invalid(fmt.Errorf("%s: is no JWK; crawld keygen makes one", path))
	}
	if _, ok := key.Key.(ed25519.PrivateKey); !ok || key.KeyID == "" {
		return key, invalid(fmt.Errorf("%s: expected an Ed25519 private key with a kid, "+
			"as crawld keygen makes it", path))
	}
	return key, nil
}

// readBounded reads a file, or in where the name is "-"; one that is longer is an error.
func readBounded(path string, in io.Reader, most int64) ([]byte, error) {
	if path != "-" || in == nil {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if int64(len(text)) > most {
		return nil, invalid(fmt.Errorf("%s: longer than %d bytes", path, most))
	}
	return text, nil
}
