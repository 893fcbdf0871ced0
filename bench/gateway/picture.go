package main

import (
	"math"
	"path/filepath"
	"strings"

	"github.com/afterbay/afterbay/internal/sys/plot"
)

// picture draws the distribution of latencies, up to one event in 10,000, by the number of nines.
// Each part has its own file.
func (b *bench) picture(part string, latencies map[string][]float64, names ...string) error {
	if b.plot == "" {
		return nil
	}
	chart := plot.Chart{Title: part + ": latency from when an event was due", X: "nines: 1 is 90 % of the events, 2 is 99 %, 3 is 99.9 %", Y: "ms"}
	for _, name := range names {
		line := plot.Line{Name: name}
		sorted := sortedFinite(latencies[name])
		for nines := 0.0; nines <= 4; nines += 0.05 {
			i := int((1 - math.Pow(10, -nines)) * float64(len(latencies[name])))
			if i < len(sorted) { // lost events have no latency
				line.Points = append(line.Points, plot.Point{X: nines, Y: sorted[i]})
			}
		}
		chart.Lines = append(chart.Lines, line)
	}
	extension := filepath.Ext(b.plot)
	return plot.WriteFile(strings.TrimSuffix(b.plot, extension)+"-"+part+extension, chart)
}
