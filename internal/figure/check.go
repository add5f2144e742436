package figure

import (
	"errors"
	"fmt"
	"math"
)

// Values beyond these bounds are taken for mistakes; so axes can be scaled
// without overflow.
const (
	largest  = 1e100
	smallest = 1e-100 // on logarithmic axes
)

// check tells why the figure cannot be shown.
func (f *Figure) check() error {
	if len(f.Panels) == 0 {
		return errors.New("no panels")
	}
	seen := map[string]bool{}
	for i, p := range f.Panels {
		if seen[p.name(i)] {
			return fmt.Errorf("two panels %q", p.name(i))
		}
		seen[p.name(i)] = true
		if err := p.check(); err != nil {
			return fmt.Errorf("panel %q: %w", p.name(i), err)
		}
	}
	for _, fact := range f.Facts {
		if !finite(fact.Value) {
			return fmt.Errorf("fact %q: %v is no value to show", fact.Name, fact.Value)
		}
	}
	return nil
}

func (p Panel) check() error {
	if len(p.Series) == 0 {
		return errors.New("no series")
	}
	for _, a := range []struct {
		name string
		Axis
	}{{"x", p.X}, {"y", p.Y}} {
		if err := a.check(); err != nil {
			return fmt.Errorf("%s axis: %w", a.name, err)
		}
	}
	seen := map[string]bool{}
	for _, s := range p.Series {
		if s.Name == "" {
			return errors.New("a series without a name")
		}
		if seen[s.Name] {
			return fmt.Errorf("two series %q", s.Name)
		}
		seen[s.Name] = true
		if err := s.check(p.X, p.Y); err != nil {
			return fmt.Errorf("series %q: %w", s.Name, err)
		}
	}
	return nil
}

func (a Axis) check() error {
	for _, end := range []*float64{a.Min, a.Max} {
		if end != nil {
			if err := a.holds(*end); err != nil {
				return err
			}
		}
	}
	if a.Min != nil && a.Max != nil && *a.Min >= *a.Max {
		return fmt.Errorf("min %v is not below max %v", *a.Min, *a.Max)
	}
	return nil
}

// holds tells why v cannot be drawn on the axis.
func (a Axis) holds(v float64) error {
	switch {
	case !finite(v):
		return fmt.Errorf("%v is no value to show", v)
	case a.Log && v < smallest:
		return fmt.Errorf("%v cannot be drawn on a logarithmic axis", v)
	}
	return nil
}

func finite(v float64) bool { return math.Abs(v) <= largest } // false for NaN

func (s Series) check(x, y Axis) error {
	if int(s.Style) >= len(styleNames) {
		return fmt.Errorf("no such style: %v", s.Style)
	}
	if len(s.Points) == 0 {
		return errors.New("no points")
	}
	for i, q := range s.Points {
		if err := x.holds(q.X); err != nil {
			return fmt.Errorf("point %d: x: %w", i, err)
		}
		for _, v := range []float64{q.Min, q.Mean, q.Max} {
			if err := y.holds(v); err != nil {
				return fmt.Errorf("point %d, x = %v: %w", i, q.X, err)
			}
		}
		switch {
		case q.Min > q.Mean || q.Mean > q.Max:
			return fmt.Errorf("point %d, x = %v: mean %v is not in %v..%v",
				i, q.X, q.Mean, q.Min, q.Max)
		case q.N < 1:
			return fmt.Errorf("point %d, x = %v: %d runs", i, q.X, q.N)
		case i > 0 && s.Style != Points && q.X <= s.Points[i-1].X:
			return fmt.Errorf("point %d: x = %v after %v", i, q.X, s.Points[i-1].X)
		}
	}
	return nil
}
