package main

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// target is a fuzz target.
type target struct{ pkg, name string }

var fuzzFunc = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

// fuzzTargets finds those of the checkout in dir, so that a new one needs no row.
func fuzzTargets(dir string) ([]target, error) {
	var list []target
	root := os.DirFS(filepath.Join(".", dir))
	if filepath.IsAbs(dir) {
		root = os.DirFS(dir)
	}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(root, name)
		for _, m := range fuzzFunc.FindAllSubmatch(text, -1) {
			list = append(list, target{"./" + path.Dir(name), string(m[1])})
		}
		return err
	})
	return list, err
}

// How long a round fuzzes one target.
const (
	shortFuzz = 2 * time.Second
	leastFuzz = 10 * time.Second
	mostFuzz  = 10 * time.Minute
)

// fuzz tries every target, in half of the time of the soak divided among them, or mostFuzz.
func (s *soak) fuzz(ctx context.Context, i int, targets []target) {
	each := shortFuzz
	if !s.short && len(targets) > 0 {
		each = min(max(s.length/time.Duration(2*len(targets)), leastFuzz), mostFuzz)
	}
	for _, t := range targets {
		if ctx.Err() != nil || s.rounds > 1 && s.over() {
			return
		}
		// The targets draw their own seeds.
		s.try(ctx, i, s.seed, []string{"-run", "^$", "-fuzz", "^" + t.name + "$",
			"-fuzztime", each.String(), "-fuzzminimizetime", "1x"}, t.pkg)
	}
}
