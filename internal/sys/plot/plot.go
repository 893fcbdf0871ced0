// Package plot draws line charts as SVG or PNG with only the standard library.
package plot

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Point is a point in a chart, in the units of its axes.
type Point struct{ X, Y float64 }

// Line is a series of points, sorted by X.
type Line struct {
	Name   string
	Points []Point
}

// Level is a marked value of Y.
type Level struct {
	Name string
	Y    float64
}

// Band is a shaded range of X.
type Band struct{ From, To float64 }

// Chart is a chart of lines. Its axes include 0 and all points.
type Chart struct {
	Title    string
	X, Y     string // labels of the axes
	Lines    []Line
	Levels   []Level
	Bands    []Band // sorted, without overlap
	BandName string
}

// Format is the file format of a chart.
type Format int

// The formats.
const (
	SVG Format = iota
	PNG
)

// FormatOf returns the format for the extension of a file name.
func FormatOf(path string) (Format, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".svg":
		return SVG, nil
	case ".png":
		return PNG, nil
	}
	return 0, fmt.Errorf("%s: a plot is written as .svg or .png: name one", path)
}

// WriteFile writes charts one below the other. The extension of the file name selects the format.
func WriteFile(path string, charts ...Chart) error {
	format, err := FormatOf(path)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(Write(file, format, charts...), file.Close())
}

// Write writes charts one below the other.
func Write(w io.Writer, format Format, charts ...Chart) error {
	var c canvas = newVector(width, height*len(charts))
	if format == PNG {
		c = newRaster(width, height*len(charts))
	}
	for i := range charts {
		charts[i].draw(c, float64(height*i))
	}
	return c.write(w)
}

// canvas is a drawing surface in pixels, with the origin in the upper left corner.
type canvas interface {
	rectangle(x, y, w, h float64, c color.RGBA)
	polyline(points []Point, c color.RGBA, dashed bool)
	text(x, y float64, s string, anchor anchor, c color.RGBA) // y is the vertical middle of the letters
	write(w io.Writer) error
}

// anchor says which part of a text is at its position.
type anchor int

const (
	start anchor = iota
	middle
	end
)

// Dimensions of a chart in pixels.
const (
	width, height = 960, 320
	left, right   = 80, 20
	top, bottom   = 60, 50
	letter        = 9 // approximate width of a letter
)

var (
	white = color.RGBA{255, 255, 255, 255}
	black = color.RGBA{34, 34, 34, 255}
	grey  = color.RGBA{221, 221, 221, 255}
	shade = color.RGBA{253, 232, 208, 255}
	inks  = []color.RGBA{{31, 119, 180, 255}, {214, 39, 40, 255}, {44, 160, 44, 255}, {148, 103, 189, 255}, {140, 86, 75, 255}}
)

// scale maps the numbers of an axis to pixels.
type scale struct{ from, to, start, end float64 }

func (s scale) pixel(v float64) float64 {
	return s.start + (v-s.from)/(s.to-s.from)*(s.end-s.start)
}

// draw draws the chart, its upper edge at y.
func (c *Chart) draw(on canvas, y float64) {
	on.rectangle(0, y, width, height, white)
	across, up := c.scales(y)
	c.drawBands(on, across, y)
	for _, v := range steps(up) {
		on.polyline([]Point{{left, up.pixel(v)}, {width - right, up.pixel(v)}}, grey, false)
		on.text(left-8, up.pixel(v), number(v), end, black)
	}
	for _, v := range steps(across) {
		on.polyline([]Point{{across.pixel(v), y + height - bottom}, {across.pixel(v), y + height - bottom + 5}}, black, false)
		on.text(across.pixel(v), y+height-bottom+14, number(v), middle, black)
	}
	for _, l := range c.Levels {
		at := up.pixel(l.Y)
		on.polyline([]Point{{left, at}, {width - right, at}}, black, true)
		on.text(width-right-4, at-9, l.Name, end, black)
	}
	for i, l := range c.Lines {
		points := thin(l.Points, across)
		for j := range points {
			points[j] = Point{across.pixel(points[j].X), up.pixel(points[j].Y)}
		}
		on.polyline(points, inks[i%len(inks)], false)
	}
	on.polyline([]Point{{left, y + top}, {left, y + height - bottom}, {width - right, y + height - bottom}}, black, false)
	on.text(left, y+16, c.Title, start, black)
	on.text(width-right, y+height-16, c.X, end, black)
	on.text(8, y+38, c.Y, start, black)
	c.drawLegend(on, y+38)
}

// scales returns the axes. They include 0 and end at a round number at the top.
func (c *Chart) scales(y float64) (across, up scale) {
	across = scale{from: math.Inf(1), to: math.Inf(-1), start: left, end: width - right}
	up = scale{start: y + height - bottom, end: y + top}
	for _, l := range c.Lines {
		for _, p := range l.Points {
			across.from, across.to = min(across.from, p.X), max(across.to, p.X)
			up.from, up.to = min(up.from, p.Y), max(up.to, p.Y)
		}
	}
	for _, l := range c.Levels {
		up.from, up.to = min(up.from, l.Y), max(up.to, l.Y)
	}
	if across.from > across.to {
		across.from, across.to = 0, 1
	}
	if across.from == across.to {
		across.to++
	}
	if up.from == up.to {
		up.to++
	}
	step := stepOf(up)
	up.from, up.to = math.Floor(up.from/step)*step, math.Ceil(up.to/step)*step
	return across, up
}

// stepOf returns the distance between the numbers of an axis: 1, 2 or 5 times a power of ten.
func stepOf(s scale) float64 {
	rough := (s.to - s.from) / 8
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, times := range []float64{1, 2, 5} {
		if rough <= times*power {
			return times * power
		}
	}
	return 10 * power
}

// steps returns the numbers to print at an axis.
func steps(s scale) []float64 {
	step := stepOf(s)
	var list []float64
	for i := math.Ceil(s.from / step); i*step <= s.to+step*1e-9; i++ {
		list = append(list, i*step)
	}
	return list
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// drawBands shades bands. It merges bands that share a pixel.
func (c *Chart) drawBands(on canvas, across scale, y float64) {
	var from, to float64
	flush := func() {
		if to > from {
			on.rectangle(from, y+top, to-from, height-bottom-top, shade)
		}
	}
	for _, b := range c.Bands {
		start, end := across.pixel(max(b.From, across.from)), across.pixel(min(b.To, across.to))
		if start > to+1 {
			flush()
			from = start
		}
		to = max(to, end)
	}
	flush()
}

// drawLegend draws the names of lines and bands, from the right edge on.
func (c *Chart) drawLegend(on canvas, y float64) {
	x := float64(width - right)
	entry := func(name string, swatch func(x float64)) {
		if name == "" {
			return
		}
		on.text(x, y, name, end, black)
		x -= float64(len(name)*letter*4/3) + 24
		swatch(x)
		x -= 16
	}
	if len(c.Bands) > 0 {
		entry(c.BandName, func(x float64) { on.rectangle(x, y-7, 18, 14, shade) })
	}
	for i := len(c.Lines) - 1; i >= 0; i-- {
		entry(c.Lines[i].Name, func(x float64) { on.polyline([]Point{{x, y}, {x + 18, y}}, inks[i%len(inks)], false) })
	}
}

// thin reduces the points to at most the lowest and the highest of each pixel column.
func thin(points []Point, across scale) []Point {
	if len(points) <= 2*width {
		return append([]Point(nil), points...)
	}
	var kept []Point
	for i := 0; i < len(points); {
		low, high := i, i
		pixel := math.Floor(across.pixel(points[i].X))
		for ; i < len(points) && math.Floor(across.pixel(points[i].X)) == pixel; i++ {
			if points[i].Y < points[low].Y {
				low = i
			}
			if points[i].Y > points[high].Y {
				high = i
			}
		}
		kept = append(kept, points[min(low, high)])
		if low != high {
			kept = append(kept, points[max(low, high)])
		}
	}
	return kept
}
