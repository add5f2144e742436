package config

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// Credentials are what the files of publishers and readers hold, in the order of the
// configuration. Of tokens nothing but their hashes is kept.
type Credentials struct {
	Keys            []ed25519.PublicKey // of Config.Publishers
	PublisherTokens [][sha256.Size]byte // likewise
	ReaderTokens    [][sha256.Size]byte // of Config.Readers
	Warnings        []string            // what works and is not well, one line each
}

const (
	maxKeyFile = 16 << 10
	minToken   = 16 // letters; fewer can be guessed
	maxToken   = 1024

	tokenLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/="
)

// credentialReader reads the files and notes what is wrong at the key that names each.
type credentialReader struct {
	problems
	out   Credentials
	known map[[sha256.Size]byte]string // token -> the entry that has it
}

// Credentials reads the files that publishers and readers name. The error is of type Errors
// and quotes no secret.
func (c *Config) Credentials() (Credentials, error) {
	r := &credentialReader{problems: problems{file: c.Path}}
	r.known = map[[sha256.Size]byte]string{}
	for _, p := range c.Publishers {
		r.out.Keys = append(r.out.Keys, r.key(p))
		r.out.PublisherTokens = append(r.out.PublisherTokens, r.token(p.TokenFile, p.at))
	}
	r.known = map[[sha256.Size]byte]string{} // one token may be for publishing and for reading
	for _, reader := range c.Readers {
		r.out.ReaderTokens = append(r.out.ReaderTokens, r.token(reader.TokenFile, reader.at))
		r.unheardOf(reader, c.Publishers)
	}
	if err := r.err(); err != nil {
		return Credentials{}, err
	}
	return r.out, nil
}

// key reads a JWK (RFC 7517, RFC 8037) with an Ed25519 public key.
func (r *credentialReader) key(p Publisher) ed25519.PublicKey {
	bad := func(format string, args ...any) ed25519.PublicKey {
		r.addAt(p.at.key, p.at.path+".key_file", "%s: %s", p.KeyFile, fmt.Sprintf(format, args...))
		return nil
	}
	data, _, err := readSmall(p.KeyFile, maxKeyFile)
	if err != nil {
		return bad("%v", err)
	}
	var jwk jose.JSONWebKey
	if err := jwk.UnmarshalJSON(data); err != nil {
		return bad("is no JWK; make one with crawld keygen")
	}
	switch key := jwk.Key.(type) {
	case ed25519.PublicKey:
		if jwk.KeyID != "" && jwk.KeyID != p.KID {
			return bad("has the kid %q, not %q; correct one of them", clip(jwk.KeyID), clip(p.KID))
		}
		return key
	case ed25519.PrivateKey:
		return bad("holds a private key, which only the publisher may have; name the public one")
	}
	return bad("holds no Ed25519 key; make one with crawld keygen")
}

// token reads a bearer token and returns its hash.
func (r *credentialReader) token(file string, at secretPlaces) [sha256.Size]byte {
	bad := func(format string, args ...any) [sha256.Size]byte {
		r.addAt(at.token, at.path+".token_file", "%s: %s", file, fmt.Sprintf(format, args...))
		return [sha256.Size]byte{}
	}
	data, mode, err := readSmall(file, maxToken+2)
	if err != nil {
		return bad("%v", err)
	}
	text := strings.TrimSpace(string(data))
	if len(text) < minToken || len(text) > maxToken || strings.Trim(text, tokenLetters) != "" {
		return bad("expected one token of %d to %d of A-Z a-z 0-9 - . _ ~ + / (RFC 6750)",
			minToken, maxToken)
	}
	if mode&0o007 != 0 {
		r.out.Warnings = append(r.out.Warnings, fmt.Sprintf(
			"%s: everybody on this machine may use the token (mode %04o); chmod 640", file, mode))
	}
	hash := sha256.Sum256([]byte(text))
	if first, twice := r.known[hash]; twice {
		return bad("is the token of %s too; each has its own", first)
	}
	r.known[hash] = at.path
	return hash
}

// unheardOf warns of sources that a reader may see and nobody publishes for: a slip of the
// pen, or a publisher that has left its events behind.
func (r *credentialReader) unheardOf(reader Reader, publishers []Publisher) {
	for i, id := range reader.Sources {
		if !slices.ContainsFunc(publishers, func(p Publisher) bool {
			return slices.ContainsFunc(p.Sources, func(s Source) bool { return s.ID == id })
		}) {
			r.out.Warnings = append(r.out.Warnings, fmt.Sprintf(
				"%s: %s.sources[%d]: %q is no source of a publisher", r.file, reader.at.path, i, clip(id)))
		}
	}
}

// readSmall reads a file of at most that many bytes, and its permissions. What is no file,
// such as a pipe, is not opened: that might wait for ever.
func readSmall(path string, most int64) (data []byte, mode fs.FileMode, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("is no ordinary file")
	case info.Size() > most:
		return nil, 0, fmt.Errorf("is longer than %d bytes", most)
	default:
		data, err = os.ReadFile(path)
	}
	if pe := new(fs.PathError); errors.As(err, &pe) {
		err = pe.Err // the path is in the error's place already
	}
	if err != nil {
		return nil, 0, fmt.Errorf("cannot be read: %w", err)
	}
	return data, info.Mode().Perm(), nil
}
