package app

import (
	"go.uber.org/zap"

	"github.com/crawld/crawld/internal/config"
	"github.com/crawld/crawld/internal/discovery"
)

// openGate puts publishers and readers into force.
func (a *App) openGate(c config.Config) error {
	gate, err := a.newGate(c)
	a.gate.Store(gate)
	return err
}

// newGate reads what the files of publishers and readers hold.
func (a *App) newGate(c config.Config) (*discovery.Gate, error) {
	secrets, err := c.Credentials()
	if err != nil {
		return nil, err
	}
	for _, warning := range secrets.Warnings {
		a.o.Log.Warn("publishers and readers", zap.String("warning", warning))
	}
	publishers := make([]discovery.Publisher, len(c.Publishers))
	for i, p := range c.Publishers {
		publishers[i] = discovery.Publisher{KID: p.KID, Key: secrets.Keys[i],
			Token: secrets.PublisherTokens[i]}
		for _, s := range p.Sources {
			publishers[i].Sources = append(publishers[i].Sources, discovery.Source(s))
		}
	}
	readers := make([]discovery.Reader, len(c.Readers))
	for i, r := range c.Readers {
		readers[i] = discovery.Reader{Token: secrets.ReaderTokens[i], All: r.All, Sources: r.Sources}
	}
	return discovery.NewGate(publishers, readers), nil
}
