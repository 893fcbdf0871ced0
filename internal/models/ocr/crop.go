package ocr

import (
	"context"
	"fmt"
	"math"
)

// coverMost is how often the boxes of a picture may cover it. Lines of text do not overlap.
const coverMost = 4

var errOverlap = fmt.Errorf("the lines of text that are found cover the image more than %d times: it is not an image of text", coverMost)

// cropAll crops boxes from a picture. The error is errOverlap or that of ctx.
func (p *picture) cropAll(ctx context.Context, boxes []box) ([]*picture, error) {
	area := 0
	for _, b := range boxes {
		w, h := b.sides()
		if area += w * h; area > coverMost*p.w*p.h {
			return nil, errOverlap
		}
	}
	list := make([]*picture, len(boxes))
	for i, b := range boxes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		list[i] = p.crop(b)
	}
	return list, nil
}

// sides returns the sides of the upright picture of a box, before it is turned.
func (b box) sides() (w, h int) {
	return int(max(b[0].distance(b[1]), b[2].distance(b[3]))), int(max(b[0].distance(b[3]), b[1].distance(b[2])))
}

// crop crops a box from a picture and makes it upright, as OpenCV warps with cubic weights and
// repeats the edge. It turns a box to the left if its height is at least 1.5 times its width.
func (p *picture) crop(b box) *picture {
	w, h := b.sides()
	out := newPicture(w, h)
	m := perspective(box{{0, 0}, {float64(w), 0}, {float64(w), float64(h)}, {0, float64(h)}}, b)
	for y := range h {
		for x := range w {
			p.sample(out.pix[3*(y*w+x):][:3], project(&m, float64(x), float64(y)))
		}
	}
	if float64(h)/float64(w) >= 1.5 {
		return out.left()
	}
	return out
}

// sample writes the colour at a place between pixels, computed from the 16 pixels around it.
func (p *picture) sample(into []byte, at point) {
	left, top := math.Floor(at.x), math.Floor(at.y)
	columns, lines := cubic(float32(at.x-left)), cubic(float32(at.y-top))
	var sums [3]float64
	for i, line := range lines {
		y := min(max(int(top)-1+i, 0), p.h-1)
		for k, column := range columns {
			pixel := p.pix[3*(y*p.w+min(max(int(left)-1+k, 0), p.w-1)):][:3]
			weight := float64(line) * float64(column)
			for c := range sums {
				sums[c] += weight * float64(pixel[c])
			}
		}
	}
	for c, sum := range sums {
		into[c] = byte(min(max(math.RoundToEven(sum), 0), 255))
	}
}

// cubic returns the weights of the four pixels around a place; x is its distance after the second.
func cubic(x float32) (weights [4]float32) {
	const a = float32(-0.75)
	weights[0] = ((a*(x+1)-5*a)*(x+1)+8*a)*(x+1) - 4*a
	weights[1] = ((a+2)*x-(a+3))*x*x + 1
	weights[2] = ((a+2)*(1-x)-(a+3))*(1-x)*(1-x) + 1
	weights[3] = 1 - weights[0] - weights[1] - weights[2]
	return weights
}

// perspective returns the projection of one box's corners to those of another, row by row.
func perspective(from, to box) [9]float64 {
	var rows [8][9]float64 // equations, with their right-hand sides
	for i, p := range from {
		q := to[i]
		rows[i] = [9]float64{p.x, p.y, 1, 0, 0, 0, -p.x * q.x, -p.y * q.x, q.x}
		rows[i+4] = [9]float64{0, 0, 0, p.x, p.y, 1, -p.x * q.y, -p.y * q.y, q.y}
	}
	for i := range rows {
		pivot := i
		for k := i + 1; k < 8; k++ {
			if math.Abs(rows[k][i]) > math.Abs(rows[pivot][i]) {
				pivot = k
			}
		}
		rows[i], rows[pivot] = rows[pivot], rows[i]
		if rows[i][i] == 0 { // corners on a line, which boxes do not have
			return [9]float64{8: 1}
		}
		for k := range rows {
			if factor := rows[k][i] / rows[i][i]; k != i {
				for j := i; j < 9; j++ {
					rows[k][j] -= factor * rows[i][j]
				}
			}
		}
	}
	m := [9]float64{8: 1}
	for i := range rows {
		m[i] = rows[i][8] / rows[i][i]
	}
	return m
}

// project returns the projection of a place, clamped to the largest picture.
func project(m *[9]float64, x, y float64) point {
	scale := 1 / (m[6]*x + m[7]*y + m[8])
	near := func(at float64) float64 {
		if !(at > -1<<30) { // also NaN
			return -1 << 30
		}
		return min(at, 1<<30)
	}
	return point{near((m[0]*x + m[1]*y + m[2]) * scale), near((m[3]*x + m[4]*y + m[5]) * scale)}
}
