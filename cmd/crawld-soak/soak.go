package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// soak is one run of the command.
type soak struct {
	out, errs io.Writer
	seed      uint64
	short     bool
	length    time.Duration
	table     []invariant
	tallies   []tally // by row of table
	rounds    int     // begun
	began     time.Time
	took      time.Duration
	dir       string // of the checkout; "" = the working directory
}

// tally is what an invariant has gone through so far.
type tally struct {
	runs, failed, skipped int
	parts                 int       // runs that skipped some of their tests
	figures               []float64 // by count of the row
	took                  time.Duration
}

// verdict is ok only for what was really tried.
func (t tally) verdict() string {
	switch {
	case t.failed > 0:
		return fmt.Sprintf("BROKEN in %d of %d", t.failed, t.runs)
	case t.runs == 0:
		return "not run"
	case t.skipped == t.runs:
		return "skipped"
	case t.skipped > 0:
		return fmt.Sprintf("ok, skipped in %d", t.skipped)
	case t.parts > 0:
		return fmt.Sprintf("ok, parts skipped in %d", t.parts)
	}
	return "ok"
}

// run goes through the table once, and again and again until the time is over.
func (s *soak) run(ctx context.Context) error {
	s.began = time.Now()
	length := s.length.String()
	if s.short {
		length = "one short round"
	}
	fmt.Fprintf(s.out, "seed %d, %s\n", s.seed, length)
	targets, err := fuzzTargets(s.dir)
	if err != nil {
		return err
	}
	again := slices.ContainsFunc(s.table, func(inv invariant) bool { return !inv.once })
	for again && !s.over() || s.rounds == 0 {
		s.rounds++
		if err := s.round(ctx, targets); err != nil {
			return fmt.Errorf("stopped in round %d: %w", s.rounds, err)
		}
	}
	s.took = time.Since(s.began)
	return nil
}

// over tells that a row which has not begun is not to begin. The first round is always whole.
func (s *soak) over() bool {
	return s.rounds > 0 && (s.short || time.Since(s.began) >= s.length)
}

func (s *soak) round(ctx context.Context, targets []target) error {
	seed := s.seed + uint64(s.rounds-1)
	for i, inv := range s.table {
		switch {
		case s.rounds > 1 && s.over():
			return nil
		case s.rounds > 1 && inv.once:
			continue
		case inv.run == "":
			s.fuzz(ctx, i, targets)
		default:
			s.try(ctx, i, seed, []string{"-run", inv.run, "-timeout", "3h"}, inv.pkg)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		fmt.Fprintln(s.out, s.line(i))
	}
	return nil
}

// line tells of one invariant.
func (s *soak) line(i int) string {
	inv, t := s.table[i], s.tallies[i]
	return fmt.Sprintf("%-4s %-30s seed %-6d %5d runs  %-44s %8v  %s", inv.id, inv.name,
		s.seed+uint64(s.rounds-1), t.runs, s.figures(i), t.took.Round(time.Second), t.verdict())
}

func (s *soak) figures(i int) string {
	var list []string
	for k, c := range s.table[i].counts {
		if k < len(s.tallies[i].figures) {
			list = append(list, amount(s.tallies[i].figures[k])+" "+c.unit)
		}
	}
	return strings.Join(list, ", ")
}

// amount writes large figures without digits that nobody reads.
func amount(n float64) string {
	if n >= 100 || n == float64(int64(n)) {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.1f", n)
}

// try runs go test once and takes in what it says. What failed is shown with the command
// that replays it.
func (s *soak) try(ctx context.Context, i int, seed uint64, args []string, pkg string) {
	inv, t := s.table[i], &s.tallies[i]
	args = append([]string{"test", "-count=1", "-v"}, args...)
	args = append(append(args, pkg), inv.args...)
	env := []string{fmt.Sprintf("CRAWLD_SEED=%d", seed)}
	if !s.short && inv.run != "" {
		env = append(env, "CRAWLD_CI=1", "CRAWLD_SOAK=1")
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), env...)
	cmd.WaitDelay = 10 * time.Second
	began := time.Now()
	raw, err := cmd.CombinedOutput()
	t.took += time.Since(began)
	output := string(raw)
	t.runs++
	t.figures = append(t.figures, make([]float64, len(inv.counts)-len(t.figures))...)
	for k, c := range inv.counts {
		t.figures[k] += c.in(output)
	}
	if why := broken(output, err); why != "" && ctx.Err() == nil {
		t.failed++
		fmt.Fprintf(s.errs, "%s %s: %s\n%s\nreplay: %s go %s\n", inv.id, inv.name, why, output,
			strings.Join(env, " "), quoted(args))
	} else if strings.Contains(output, "--- SKIP") {
		if strings.Contains(output, "--- PASS") {
			t.parts++
		} else {
			t.skipped++
		}
	}
}

// fuzzDeadline is what that says (go.dev/issue/75804).
var fuzzDeadline = regexp.MustCompile(`(?m)^ *context deadline exceeded$`)

// broken says why a run was no success. A pattern that no test has is one too: an
// invariant must not get lost when a test is renamed.
func broken(output string, err error) string {
	switch exit := new(exec.ExitError); {
	case errors.As(err, &exit) && fuzzDeadline.MatchString(output) &&
		!strings.Contains(output, "Failing input written"):
		return "" // Go 1.26's coordinator may take the end of -fuzztime for a failure
	case errors.As(err, &exit):
		return "failed"
	case err != nil:
		return err.Error()
	case strings.Contains(output, "testing: warning: no tests to run"):
		return "there is no such test"
	}
	return ""
}

// quoted spells arguments for a shell.
func quoted(args []string) string {
	list := make([]string, len(args))
	for i, a := range args {
		if list[i] = a; strings.ContainsAny(a, "^$|()*? ") {
			list[i] = "'" + a + "'"
		}
	}
	return strings.Join(list, " ")
}

// code is the exit code.
func (s *soak) code() int {
	for _, t := range s.tallies {
		if t.failed > 0 {
			return 1
		}
	}
	return 0
}
