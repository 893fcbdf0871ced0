package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/color"
	"io"
	"strconv"
)

// vector is a canvas for SVG.
type vector struct{ body bytes.Buffer }

func newVector(width, height int) *vector {
	v := &vector{}
	fmt.Fprintf(&v.body, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="14">`+"\n", width, height, width, height)
	return v
}

func (v *vector) rectangle(x, y, w, h float64, c color.RGBA) {
	fmt.Fprintf(&v.body, `<rect x="%s" y="%s" width="%s" height="%s" fill="%s"/>`+"\n", pixels(x), pixels(y), pixels(w), pixels(h), hex(c))
}

func (v *vector) polyline(points []Point, c color.RGBA, dashed bool) {
	dashes := ""
	if dashed {
		dashes = ` stroke-dasharray="6 4"`
	}
	fmt.Fprintf(&v.body, `<polyline fill="none" stroke="%s" stroke-width="1.5"%s points="`, hex(c), dashes)
	for i, p := range points {
		if i > 0 {
			v.body.WriteByte(' ')
		}
		v.body.WriteString(pixels(p.X) + "," + pixels(p.Y))
	}
	v.body.WriteString("\"/>\n")
}

func (v *vector) text(x, y float64, s string, a anchor, c color.RGBA) {
	fmt.Fprintf(&v.body, `<text x="%s" y="%s" dominant-baseline="middle" text-anchor="%s" fill="%s">`, pixels(x), pixels(y), [...]string{"start", "middle", "end"}[a], hex(c))
	_ = xml.EscapeText(&v.body, []byte(s)) // writes to a buffer do not fail
	v.body.WriteString("</text>\n")
}

func (v *vector) write(w io.Writer) error {
	v.body.WriteString("</svg>\n")
	_, err := v.body.WriteTo(w)
	return err
}

// pixels formats a number with at most one decimal.
func pixels(v float64) string {
	text := strconv.FormatFloat(v, 'f', 1, 64)
	if n := len(text); text[n-2:] == ".0" {
		return text[:n-2]
	}
	return text
}

func hex(c color.RGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }
