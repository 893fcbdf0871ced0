package ocr

import (
	"cmp"
	"math"
	"slices"
)

// point is a place in a picture, or on a map of it.
type point struct{ x, y float64 }

func (p point) minus(o point) point      { return point{p.x - o.x, p.y - o.y} }
func (p point) distance(o point) float64 { return math.Hypot(p.x-o.x, p.y-o.y) }
func cross(a, b point) float64           { return a.x*b.y - a.y*b.x }
func dot(a, b point) float64             { return a.x*b.x + a.y*b.y }
func (p point) plus(o point) point       { return point{p.x + o.x, p.y + o.y} }
func (p point) times(f float64) point    { return point{p.x * f, p.y * f} }
func compareXY(a, b point) int           { return cmp.Or(cmp.Compare(a.x, b.x), cmp.Compare(a.y, b.y)) }
func sortedXY(points []point) []point    { slices.SortFunc(points, compareXY); return points }

// outlines returns the convex hulls of the contours of a map. There is a contour for each group of
// marks that touch at sides or corners, and for the marks around each hole in a group. outlines
// returns at most limit hulls, those that end lowest.
func outlines(marks []bool, w, h, limit int) [][]point {
	seen := make([]bool, len(marks))
	var list [][]point
	var queue []int32
	for start := len(marks) - 1; start >= 0 && len(list) < limit; start-- {
		if seen[start] {
			continue
		}
		queue = append(queue[:0], int32(start))
		seen[start] = true
		mark, open := marks[start], false
		var around []point // marks around a hole
		for i := 0; i < len(queue); i++ {
			x, y := int(queue[i])%w, int(queue[i])/w
			for dy := -1; dy <= 1; dy++ {
				for dx := -1; dx <= 1; dx++ {
					if dx == 0 && dy == 0 || !mark && dx != 0 && dy != 0 {
						continue
					}
					nx, ny := x+dx, y+dy
					if nx < 0 || ny < 0 || nx >= w || ny >= h {
						open = true
						continue
					}
					next := ny*w + nx
					switch {
					case marks[next] != mark && !mark:
						around = append(around, point{float64(nx), float64(ny)})
					case marks[next] == mark && !seen[next]:
						seen[next] = true
						queue = append(queue, int32(next))
					}
				}
			}
		}
		switch {
		case mark:
			list = append(list, hull(ends(queue, w)))
		case !open:
			list = append(list, hull(sortedXY(around)))
		}
	}
	return list
}

// ends returns the first and the last of the sorted places in each line. All others are between
// them.
func ends(places []int32, w int) []point {
	slices.Sort(places)
	var list []point
	for i, place := range places {
		line := int(place) / w
		first := i == 0 || int(places[i-1])/w != line
		last := i == len(places)-1 || int(places[i+1])/w != line
		if first || last {
			list = append(list, point{float64(int(place) % w), float64(line)})
		}
	}
	return sortedXY(list)
}

// hull returns the convex hull of sorted points, without those on its edges.
func hull(points []point) []point {
	points = slices.CompactFunc(points, func(a, b point) bool { return a == b })
	if len(points) < 3 {
		return points
	}
	var out []point
	grow := func(p point, from int) {
		for len(out) >= from+2 && cross(out[len(out)-1].minus(out[len(out)-2]), p.minus(out[len(out)-1])) <= 0 {
			out = out[:len(out)-1]
		}
		out = append(out, p)
	}
	for _, p := range points {
		grow(p, 0)
	}
	back := len(out) - 1
	for _, p := range slices.Backward(points[:len(points)-1]) {
		grow(p, back)
	}
	return out[:len(out)-1]
}

// box is four corners.
type box [4]point

// around returns the smallest rotated rectangle around a hull, with its corners from the top left
// clockwise, and its shorter side. side is 0 if the hull has no area.
func around(hull []point) (b box, side float64) {
	if len(hull) < 3 {
		return b, 0
	}
	best := math.Inf(1)
	for i, p := range hull {
		along := hull[(i+1)%len(hull)].minus(p)
		along = along.times(1 / math.Hypot(along.x, along.y))
		across := point{-along.y, along.x}
		low, high := point{math.Inf(1), math.Inf(1)}, point{math.Inf(-1), math.Inf(-1)}
		for _, q := range hull {
			q = q.minus(p)
			a, c := dot(q, along), dot(q, across)
			low, high = point{min(low.x, a), min(low.y, c)}, point{max(high.x, a), max(high.y, c)}
		}
		if area := (high.x - low.x) * (high.y - low.y); area < best-1e-9 {
			best, side = area, min(high.x-low.x, high.y-low.y)
			for k, corner := range []point{{low.x, low.y}, {high.x, low.y}, {high.x, high.y}, {low.x, high.y}} {
				b[k] = p.plus(along.times(corner.x)).plus(across.times(corner.y)).rounded()
			}
		}
	}
	return b.clockwise(), side
}

// rounded removes rounding errors of the arithmetic, so that whole numbers are exact.
func (p point) rounded() point {
	return point{math.Round(p.x*1e6) / 1e6, math.Round(p.y*1e6) / 1e6}
}

// clockwise orders corners. Among the two leftmost corners, and among the two others, the higher
// one comes first.
func (b box) clockwise() box {
	list := b[:]
	slices.SortStableFunc(list, func(a, c point) int { return cmp.Compare(a.x, c.x) })
	left, right := list[:2:2], list[2:]
	byHeight := func(a, c point) int { return cmp.Compare(a.y, c.y) }
	slices.SortStableFunc(left, byHeight)
	slices.SortStableFunc(right, byHeight)
	return box{left[0], right[0], right[1], left[1]}
}
