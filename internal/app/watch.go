package app

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

// settles is how long a changed list must stay as it is before it is read: who
// writes it may not be done yet.
const settles = time.Second

// watch reloads the sensor lists when one of them has changed. It watches their
// folders, because editors and configuration tools put a new file in an old
// one's place. Where nothing can be watched, SIGHUP and HTTP are left.
func (a *App) watch(ctx context.Context) {
	if a.o.Fleet != nil {
		return
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		a.o.Log.Warn("sensor lists are not watched", zap.Error(err))
		return
	}
	defer w.Close()
	settled := time.NewTimer(0) // a list may have changed while everything was built
	defer settled.Stop()
	patterns := a.sources()
	a.watchFolders(w, patterns)
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-w.Events: // of the database too, where it lies beside the lists
			if !e.Has(fsnotify.Chmod) && isList(patterns, e.Name) {
				settled.Reset(settles)
			}
		case err := <-w.Errors: // events were lost: look
			a.o.Log.Debug("watching sensor lists", zap.Error(err))
			settled.Reset(settles)
		case <-settled.C:
			a.reloadChanged(ctx)
			patterns = a.sources()
			a.watchFolders(w, patterns)
		}
	}
}

func (a *App) watchFolders(w *fsnotify.Watcher, patterns []string) {
	watched := w.WatchList()
	for _, pattern := range patterns {
		folders, _ := filepath.Glob(filepath.Dir(pattern)) // a bad pattern was refused at load
		for _, folder := range folders {
			if slices.Contains(watched, folder) {
				continue
			}
			if err := w.Add(folder); err != nil {
				a.o.Log.Warn("folder of sensor lists is not watched", zap.String("folder", folder),
					zap.Error(err))
			}
		}
	}
}

// isList tells whether a file that has changed is one of the lists. The links
// that Kubernetes swaps beside its files begin with two dots.
func isList(patterns []string, name string) bool {
	if strings.HasPrefix(filepath.Base(name), "..") {
		return true
	}
	for _, pattern := range patterns {
		if ok, err := filepath.Match(filepath.Clean(pattern), filepath.Clean(name)); ok && err == nil {
			return true
		}
	}
	return false
}

// sources are the patterns that the lists are read from now.
func (a *App) sources() []string {
	a.reload.Lock()
	defer a.reload.Unlock()
	return a.o.Patterns
}

// reloadChanged reloads if the lists are not what was read last, well or not.
func (a *App) reloadChanged(ctx context.Context) {
	a.reload.Lock()
	defer a.reload.Unlock()
	if fingerprint(a.o.Patterns) != a.tried {
		_ = a.reloadLocked(ctx) // logged and counted there
	}
}

// fingerprint is a hash of all that the patterns lead to, names and contents.
func fingerprint(patterns []string) [sha256.Size]byte {
	h := sha256.New()
	for _, pattern := range patterns {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			data, err := os.ReadFile(file)
			fmt.Fprintf(h, "%q %d %v\n", file, len(data), err)
			h.Write(data)
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}
