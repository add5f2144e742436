package sim

import (
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/crawld/crawld/internal/figure"
)

// pieceLength is that of the pieces in which the traces stand for many sensors.
const pieceLength = 500

const pieceNote = "The paper has hundreds of sensors, here are pieces of 500 publications of " +
	"other traces; one without enough intervals of a few periods is left out."

// pieces are the fits to parts of a trace.
func pieces(t Trace) ([]TrafficFit, error) {
	var fits []TrafficFit
	for i := 0; i+pieceLength <= len(t.Instants); i += pieceLength {
		part := t
		part.Instants = t.Instants[i : i+pieceLength]
		if fit, err := FitTraffic(part); err == nil {
			fits = append(fits, fit)
		}
	}
	if len(fits) > 0 {
		return fits, nil
	}
	whole, err := FitTraffic(t)
	return []TrafficFit{whole}, err
}

// correlation is figure 8.
func (s PollingStudy) correlation() (*figure.Figure, error) {
	panel := figure.Panel{X: figure.Axis{Label: "p_fs"}, Y: figure.Axis{Label: "p_ss"}}
	f := &figure.Figure{ID: "polling-8", Title: "Success after success and after failure",
		Source: "DPT, Fig. 8", Notes: []string{pieceNote,
			"Pieces without any failure have no p_fs and are not shown."}}
	for _, t := range s.Traces {
		fits, err := pieces(t)
		if err != nil {
			return nil, err
		}
		series := figure.Series{Name: t.Name, Style: figure.Points}
		higher := 0.0
		for _, fit := range fits {
			if fit.PFS.Value > 0 {
				series.Points = append(series.Points, figure.At(fit.PFS.Value, fit.PSS.Value))
				if fit.PSS.Value > fit.PFS.Value {
					higher++
				}
			}
		}
		n := float64(len(series.Points))
		f.Facts = append(f.Facts, figure.Fact{Name: "pieces with failures, " + t.Name, Value: n},
			figure.Fact{Name: "pieces, " + t.Name, Value: float64(len(fits))})
		if n > 0 {
			panel.Series = append(panel.Series, series)
			f.Facts = append(f.Facts, figure.Fact{Name: "p_ss above p_fs, " + t.Name,
				Value: 100 * higher / n, Unit: "%", Paper: "consistently"})
		}
	}
	if len(panel.Series) == 0 {
		return nil, errors.New("figure 8: nothing ever failed in these traces")
	}
	f.Panels = []figure.Panel{panel}
	return f, nil
}

// failures is figure 9: the error of eq. 5 for three models of failures in a row.
func (s PollingStudy) failures() (*figure.Figure, error) {
	threshold := distuv.ChiSquared{K: LongFailures}.Quantile(1 - Significance)
	f := &figure.Figure{ID: "polling-9", Title: "Error of the models of failures in a row",
		Source: "DPT, Fig. 9", Notes: []string{pieceNote, fmt.Sprintf("A model fits where its "+
			"error (eq. 5) is below %.4g, chi-squared at 0.05. Parameters read off the same "+
			"counts make that lenient, rare counts severe; the fit of a trace has the test proper.",
			threshold)}}
	for _, t := range s.Traces {
		fits, err := pieces(t)
		if err != nil {
			return nil, err
		}
		fits = slices.DeleteFunc(fits, func(f TrafficFit) bool { return f.PFS.Value == 0 })
		if len(fits) == 0 {
			f.Notes = append(f.Notes, "Nothing ever failed in "+t.Name+".")
			continue
		}
		panel := figure.Panel{Title: t.Name, X: figure.Axis{Label: "error, at least 0.01", Log: true},
			Y: figure.Axis{Label: "share of pieces"}}
		for m, model := range fits[0].Models {
			var errs []float64
			for _, fit := range fits {
				errs = append(errs, max(fit.Models[m].Error, 0.01))
			}
			slices.Sort(errs)
			panel.Series = append(panel.Series, figure.Series{Name: model.Model, Style: figure.Steps,
				Points: cumulative(errs, 0.01)})
			paper := ""
			if model.Model == "two-state" {
				paper = "about half of one deployment, none of the other"
			}
			f.Facts = append(f.Facts, figure.Fact{Name: "fits, " + model.Model + ", " + t.Name,
				Value: 100 * (1 - shareAbove(errs, threshold)), Unit: "%", Paper: paper})
		}
		f.Panels = append(f.Panels, panel)
	}
	if len(f.Panels) == 0 {
		return nil, errors.New("figure 9: nothing ever failed in these traces")
	}
	return f, nil
}

// jitter is figure 10: the distribution around one and two periods, and those fitted.
func (s PollingStudy) jitter() (*figure.Figure, error) {
	f := &figure.Figure{ID: "polling-10", Title: "Jitter around one and two periods",
		Source: "DPT, Fig. 10", Notes: []string{"The paper's traces are not published; these " +
			"are others, whole seconds made continuous.",
			"A number of periods that few intervals have is left out, and so are traces whose " +
				"clock is exact."}}
	for _, t := range s.Traces {
		times := make([]float64, len(t.Instants))
		for i, at := range t.Instants {
			times[i] = at.Sub(t.Instants[0]).Seconds()
		}
		c := classify(times, periodOf(times))
		if spread(c.residuals).Value < c.period/1000 {
			continue
		}
		for h, residuals := range c.byFailures() {
			if h > 1 || len(residuals) < minFit {
				continue
			}
			name := fmt.Sprintf("%s, %d period", t.Name, h+1)
			f.Panels = append(f.Panels, jitterPanel(name, residuals))
			m := jitterModel(float64(h+1), residuals)
			paper := [2]string{}
			if h == 0 {
				paper = [2]string{"0.1985", "0.1475"}
			}
			f.Facts = append(f.Facts,
				figure.Fact{Name: "K-S distance of normal, " + name, Value: m.Normal.Distance,
					Paper: paper[0]},
				figure.Fact{Name: "K-S distance of Laplace, " + name, Value: m.Laplace.Distance,
					Paper: paper[1]})
		}
	}
	if len(f.Panels) == 0 {
		return nil, errors.New("figure 10: no trace with jitter")
	}
	return f, nil
}

func jitterPanel(title string, residuals []float64) figure.Panel {
	const points = 60
	x := slices.Sorted(slices.Values(residuals))
	from := stat.Quantile(0.005, stat.Empirical, x, nil)
	to := stat.Quantile(0.995, stat.Empirical, x, nil)
	if to <= from {
		from, to = from-1, to+1
	}
	normal, laplace := fitNormal(x), fitLaplace(x)
	measured := figure.Series{Name: "measured", Style: figure.Steps}
	n, l := figure.Series{Name: "normal"}, figure.Series{Name: "Laplace"}
	for i := range points {
		at := from + (to-from)*float64(i)/(points-1)
		measured.Points = append(measured.Points, figure.At(at, 1-shareAbove(x, at)))
		n.Points = append(n.Points, figure.At(at, normal.CDF(at)))
		l.Points = append(l.Points, figure.At(at, laplace.CDF(at)))
	}
	return figure.Panel{Title: title, X: figure.Axis{Label: "jitter", Unit: "s"},
		Y: figure.Axis{Label: "share of intervals"}, Series: []figure.Series{measured, n, l}}
}

// jitterDistance is figure 11: the distance of both distributions by number of periods.
func (s PollingStudy) jitterDistance() (*figure.Figure, error) {
	f := &figure.Figure{ID: "polling-11", Title: "Distance of jitter from two distributions",
		Source: "DPT, Fig. 11", Notes: []string{pieceNote, "An interval is of one or more " +
			"periods; 0 are the publications around a wall-clock grid."}}
	for _, t := range s.Traces {
		fits, err := pieces(t)
		if err != nil {
			return nil, err
		}
		var distances curves
		better, all := 0.0, 0.0
		for _, fit := range fits {
			for _, m := range fit.Jitters {
				distances.add("normal", m.Periods, m.Normal.Distance)
				distances.add("Laplace", m.Periods, m.Laplace.Distance)
				all++
				if m.Laplace.Distance < m.Normal.Distance {
					better++
				}
			}
		}
		panel := figure.Panel{Title: t.Name, Series: distances.series(),
			X: figure.Axis{Label: "periods"}, Y: figure.Axis{Label: "K-S distance"}}
		for i := range panel.Series {
			panel.Series[i].Style = figure.Bars
		}
		f.Panels = append(f.Panels, panel)
		f.Facts = append(f.Facts, figure.Fact{Name: "Laplace nearer than normal, " + t.Name,
			Value: 100 * better / all, Unit: "%", Paper: "almost all"})
	}
	return f, nil
}
