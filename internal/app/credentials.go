package app

import (
	"time"

	"go.uber.org/zap"

	"github.com/crawld/crawld/internal/coapclient"
	"github.com/crawld/crawld/internal/config"
	"github.com/crawld/crawld/internal/sessionfile"
)

// Credentials reads what the configuration says secure sensors are met with. Warnings and
// errors are those of config.SensorSecrets.
func Credentials(c *config.Config) (_ []coapclient.Credential, warnings []string, _ error) {
	secrets, warnings, err := c.SensorSecrets(time.Now())
	if err != nil {
		return nil, nil, err
	}
	var list []coapclient.Credential
	for _, s := range secrets {
		cred := coapclient.Credential{ID: s.ID, Identity: s.PSKIdentity, Key: s.Key, Roots: s.Roots,
			ServerName: s.ServerName, ConnectionID: s.ConnectionID}
		if s.Certificate != nil {
			cred.Certificate = *s.Certificate
		}
		list = append(list, cred)
	}
	return list, warnings, nil
}

// SessionsPath is where what lets visits to secure sensors do without a handshake is kept: a
// file of its own beside the data file, so that a backup of that holds no secret.
func SessionsPath(data string) string { return data + ".sessions" }

// openSessions opens that file if there are credentials. What is damaged costs handshakes
// and is said; a daemon without this file crawls all the same.
func (a *App) openSessions() *sessionfile.File {
	if len(a.o.Config.SensorCredentials) == 0 {
		return nil
	}
	f, warnings, err := sessionfile.Open(SessionsPath(a.o.Config.Data))
	if err != nil {
		a.o.Log.Error("sessions of secure sensors are not kept: each visit is a handshake",
			zap.Error(err))
		return nil
	}
	for _, w := range warnings {
		a.o.Log.Warn("sessions of secure sensors", zap.String("warning", w))
	}
	a.defers("sessions", f.Close)
	return f
}
