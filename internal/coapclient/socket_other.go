//go:build !linux

package coapclient

// Outside Linux an unreachable sensor is known by its silence only.

func (s *socket) askForErrors(string) {}

func (c *Client) drainErrors(*socket) int { return 0 }

func (s *socket) kernel() (drops uint64, readBuffer int) { return 0, 0 }
