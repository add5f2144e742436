// Package traces holds recordings of when sensors took their readings. README.md says
// where they come from and whose they are.
package traces

import "embed"

// Files are the recordings, gzip CSV with Unix seconds in the first column.
//
//go:embed *.csv.gz
var Files embed.FS
