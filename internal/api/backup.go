package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/crawld/crawld/internal/repository"
)

const (
	// backupPatience bounds the copying of the data file, during which its pages cannot
	// be used again.
	backupPatience = 10 * time.Minute
	// backupChunk is sent within backupPace, or the peer is given up.
	backupChunk = 1 << 20
	backupPace  = time.Minute
)

// backup answers with a copy of the data file as of the last commit.
func (s *server) backup(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(backupPatience + backupPace))
	ctx, cancel := context.WithTimeout(r.Context(), backupPatience)
	defer cancel()
	copied, err := s.o.Repo.Backup(ctx)
	if err != nil {
		if errors.Is(err, repository.ErrFull) {
			err = faultf(http.StatusInsufficientStorage, "%v", err)
		}
		s.refuse(w, r, err)
		return
	}
	defer copied.Close()
	info, err := copied.Stat()
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	for err == nil && r.Method != http.MethodHead {
		_ = control.SetWriteDeadline(time.Now().Add(backupPace))
		_, err = io.CopyN(w, copied, backupChunk)
	}
}
