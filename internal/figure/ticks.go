package figure

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// span is the range that an axis shows of data in [lo, hi]: a little more, on
// sides that are not fixed. A linear axis of values that are not negative begins
// at zero where fromZero asks for it.
func (a Axis) span(lo, hi, margin float64, fromZero bool) (least, most float64) {
	if a.Log {
		lo, hi = math.Log(lo), math.Log(hi)
		if hi-lo < 1e-3 {
			lo, hi = lo-math.Ln2, hi+math.Ln2
		}
	} else if hi-lo <= 1e-9*max(math.Abs(lo), math.Abs(hi), smallest) {
		d := math.Abs(lo) / 10
		if d == 0 {
			d = 1
		}
		lo, hi = lo-d, hi+d
	}
	pad := margin * (hi - lo)
	least, most = lo-pad, hi+pad
	if a.Log {
		least, most = math.Exp(least), math.Exp(most)
	} else if fromZero && lo >= 0 {
		least = 0
	} else if fromZero && hi <= 0 {
		most = 0
	}
	if a.Min != nil {
		least = *a.Min
	}
	if a.Max != nil {
		most = *a.Max
	}
	if least < most {
		return least, most
	}
	// All data lie beyond the one end that is fixed: an empty axis from there.
	if a.Min != nil {
		return least, least + max(math.Abs(least), 1)
	}
	if a.Log {
		return most / 10, most
	}
	return most - max(math.Abs(most), 1), most
}

// ticks are the marks of an axis from lo to hi: about want labelled ones.
func (a Axis) ticks(lo, hi float64, want int) plot.ConstantTicks {
	if a.Log {
		if t := logTicks(lo, hi, want); t != nil {
			return t
		}
	}
	return linearTicks(lo, hi, want)
}

// linearTicks are the multiples of 1, 2 or 5 times a power of ten.
func linearTicks(lo, hi float64, want int) plot.ConstantTicks {
	e := int(math.Floor(math.Log10((hi - lo) / float64(want))))
	digit := 10.0
	for _, d := range []float64{1, 2, 5} {
		if (hi-lo)/(d*math.Pow10(e)) <= float64(want) {
			digit = d
			break
		}
	}
	if digit == 10 {
		digit, e = 1, e+1
	}
	// at keeps products of short decimals short: 3*2/10 is 0.6, 3*0.2 is not.
	at := func(i float64) float64 {
		if e < 0 {
			return i * digit / math.Pow10(-e)
		}
		return i * digit * math.Pow10(e)
	}
	var values []float64
	slack := (hi - lo) * 1e-9
	for i := math.Ceil((lo - slack) / at(1)); at(i) <= hi+slack; i++ {
		values = append(values, min(max(at(i), lo), hi))
	}
	big := max(math.Abs(lo), math.Abs(hi))
	var ticks plot.ConstantTicks
	for _, v := range values {
		ticks = append(ticks, plot.Tick{Value: v, Label: tickLabel(v, big, e)})
	}
	return ticks
}

// tickLabel writes v to the decimal place 10^place. Where the axis reaches a
// million or ends below a thousandth it is written in powers of a thousand.
func tickLabel(v, big float64, place int) string {
	if math.Abs(v) < math.Pow10(place)/2 {
		return "0"
	}
	power := 0
	if big >= 1e6 || big < 1e-3 {
		power = int(math.Floor(math.Log10(big)/3)) * 3
	}
	if power < 0 {
		v *= math.Pow10(-power)
	} else {
		v /= math.Pow10(power)
	}
	label := strconv.FormatFloat(v, 'f', max(power-place, 0), 64)
	if power != 0 {
		label += "e" + strconv.Itoa(power)
	}
	return label
}

// logTicks labels decades; where there are few, also 2 and 5 times, and where
// there are many, only some. Nil means that a linear axis shows more.
func logTicks(lo, hi float64, want int) plot.ConstantTicks {
	first, last := int(math.Floor(math.Log10(lo))), int(math.Ceil(math.Log10(hi)))
	decades := int(math.Floor(math.Log10(hi))) - int(math.Ceil(math.Log10(lo))) + 1
	every := max((decades+want-1)/want, 1)
	labelled := func(e, digit int) bool {
		return digit == 1 && e%every == 0 || decades < 3 && (digit == 2 || digit == 5)
	}
	var ticks plot.ConstantTicks
	labels := 0
	for e := first; e <= last; e++ {
		for digit := 1; digit < 10; digit++ {
			// ParseFloat gives the nearest value, Pow10 times a digit may not.
			v, _ := strconv.ParseFloat(strconv.Itoa(digit)+"e"+strconv.Itoa(e), 64)
			if v < lo || v > hi || digit > 1 && every > 1 {
				continue
			}
			t := plot.Tick{Value: v}
			if labelled(e, digit) {
				t.Label = logLabel(v, digit, e)
				labels++
			}
			ticks = append(ticks, t)
		}
	}
	if labels < 2 {
		return nil
	}
	return ticks
}

func logLabel(v float64, digit, e int) string {
	if e < -3 || e > 5 {
		return strconv.Itoa(digit) + "e" + strconv.Itoa(e)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
