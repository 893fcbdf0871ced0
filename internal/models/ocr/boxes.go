package ocr

import (
	"cmp"
	"math"
	"slices"
)

// The settings that the models were designed for.
const (
	markAbove   = 0.3 // least probability of text for a mark
	boxAbove    = 0.5 // least mean probability of a box of text
	growBy      = 1.6 // a box is enlarged by this times its area over its perimeter
	contoursMax = 1000
	sideMin     = 3  // shortest side of a contour's box
	sameLine    = 10 // largest vertical distance in pixels between boxes of one line
)

// boxesOf returns the boxes of text in reading order. text is a map of probabilities for a picture
// of size w times h.
func boxesOf(text []float32, mapW, mapH, w, h int) []box {
	var list []box
	for _, hull := range outlines(marksOf(text, mapW, mapH), mapW, mapH, contoursMax) {
		found, side := around(hull)
		if side < sideMin || meanOf(text, mapW, mapH, found) < boxAbove {
			continue
		}
		found, side = around(grown(found))
		if side < sideMin+2 {
			continue
		}
		for i, p := range found {
			found[i] = point{scaled(p.x, mapW, w), scaled(p.y, mapH, h)}
		}
		found = found.clockwise()
		for i, p := range found {
			found[i] = point{min(p.x, float64(w-1)), min(p.y, float64(h-1))}
		}
		if math.Floor(found[0].distance(found[1])) > 3 && math.Floor(found[0].distance(found[3])) > 3 {
			list = append(list, found)
		}
	}
	return inReadingOrder(list)
}

func scaled(at float64, from, to int) float64 {
	return min(max(math.RoundToEven(at/float64(from)*float64(to)), 0), float64(to))
}

// marksOf marks the places with text, and their neighbours to the right and below.
func marksOf(text []float32, w, h int) []bool {
	marks := make([]bool, w*h)
	for y := range h {
		for x := range w {
			if text[y*w+x] <= markAbove {
				continue
			}
			for _, at := range [][2]int{{x, y}, {x + 1, y}, {x, y + 1}, {x + 1, y + 1}} {
				if at[0] < w && at[1] < h {
					marks[at[1]*w+at[0]] = true
				}
			}
		}
	}
	return marks
}

// meanOf returns the mean of the places in a box.
func meanOf(text []float32, w, h int, b box) float64 {
	for i, p := range b {
		b[i] = point{math.Trunc(p.x), math.Trunc(p.y)}
	}
	sum, n := 0.0, 0
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range b {
		low, high = min(low, p.y), max(high, p.y)
	}
	for y := max(low, 0); y <= min(high, float64(h-1)); y++ {
		left, right := math.Inf(1), math.Inf(-1)
		for i, p := range b {
			q := b[(i+1)%4]
			switch {
			case p.y == q.y && p.y == y:
				left, right = min(left, p.x, q.x), max(right, p.x, q.x)
			case p.y != q.y && y >= min(p.y, q.y) && y <= max(p.y, q.y):
				x := p.x + (q.x-p.x)*(y-p.y)/(q.y-p.y)
				left, right = min(left, x), max(right, x)
			}
		}
		for x := max(math.Floor(left+0.5), 0); x <= min(math.Floor(right+0.5), float64(w-1)); x++ {
			sum += float64(text[int(y)*w+int(x)])
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// grown returns the hull of a box enlarged on all sides, with round corners in whole numbers, as
// Clipper offsets polygons.
func grown(b box) []point {
	area, length := 0.0, 0.0
	for i, p := range b {
		q := b[(i+1)%4]
		area += cross(p, q) / 2
		length += p.distance(q)
	}
	by := math.Abs(area) * growBy / length
	var corners []point
	for _, p := range b {
		p = point{math.Trunc(p.x), math.Trunc(p.y)}
		if len(corners) == 0 || corners[len(corners)-1] != p {
			corners = append(corners, p)
		}
	}
	if len(corners) > 1 && corners[0] == corners[len(corners)-1] {
		corners = corners[:len(corners)-1]
	}
	if len(corners) < 3 || by < 1 {
		return nil
	}
	var out []point
	for i := range corners {
		out = append(out, corner(corners[(i+len(corners)-1)%len(corners)], corners[i], corners[(i+1)%len(corners)], by)...)
	}
	return hull(sortedXY(out))
}

// corner returns the points at distance by around a corner of a polygon.
func corner(before, at, after point, by float64) []point {
	outward := func(from, to point) point {
		d := to.minus(from)
		length := math.Hypot(d.x, d.y)
		return point{d.y / length, -d.x / length}
	}
	place := func(normal point) point { return at.plus(normal.times(by)).whole() }
	from, to := outward(before, at), outward(at, after)
	sine, cosine := cross(from, to), dot(from, to)
	if math.Abs(sine*by) < 1 && cosine > 0 {
		return []point{place(from)}
	}
	const tolerance = 0.25
	steps := min(math.Pi/math.Acos(1-tolerance/by), by*math.Pi)
	n := max(int(math.Round(steps/(2*math.Pi)*math.Abs(math.Atan2(sine, cosine)))), 1)
	sin, cos := math.Sincos(2 * math.Pi / steps)
	var out []point
	for range n {
		out = append(out, place(from))
		from = point{from.x*cos - sin*from.y, from.x*sin + from.y*cos}
	}
	return append(out, place(to))
}

func (p point) whole() point { return point{math.Round(p.x), math.Round(p.y)} }

// inReadingOrder sorts boxes from top to bottom, and the boxes of a line from left to right.
func inReadingOrder(list []box) []box {
	slices.SortStableFunc(list, func(a, b box) int { return cmp.Or(cmp.Compare(a[0].y, b[0].y), cmp.Compare(a[0].x, b[0].x)) })
	for i := 1; i < len(list); i++ {
		for j := i; j > 0 && math.Abs(list[j][0].y-list[j-1][0].y) < sameLine && list[j][0].x < list[j-1][0].x; j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
	return list
}
