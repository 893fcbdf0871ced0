package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func depthChart(n int) Chart {
	c := Chart{
		Title: "depth & marks <of a queue>", X: "tick", Y: "events", BandName: "throttled",
		Levels: []Level{{"high 150", 150}}, Bands: []Band{{100, 200}, {300, 400}}, Lines: []Line{{Name: "depth"}},
	}
	for i := range n {
		c.Lines[0].Points = append(c.Lines[0].Points, Point{float64(i), float64(i % 151)})
	}
	return c
}

func TestChartIsWellFormedSVG(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, SVG, depthChart(500), depthChart(10)); err != nil {
		t.Fatal(err)
	}
	texts, rectangles := 0, 0
	for d := xml.NewDecoder(bytes.NewReader(b.Bytes())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			switch e.Name.Local {
			case "text":
				texts++
			case "rect":
				rectangles++
			}
		}
	}
	// a background, two bands and their legend: the second chart ends before its bands
	if texts < 20 || rectangles < 6 {
		t.Errorf("%d texts, %d rectangles", texts, rectangles)
	}
	for _, want := range []string{`height="640"`, "depth &amp; marks &lt;of a queue&gt;", ">high 150<", ">throttled<", `stroke-dasharray="6 4"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s", want)
		}
	}
}

func TestChartIsThePictureInPNG(t *testing.T) {
	path := filepath.Join(t.TempDir(), "depth.PNG")
	c := depthChart(500)
	if err := WriteFile(path, c); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	picture, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	if b := picture.Bounds(); b.Dx() != width || b.Dy() != height {
		t.Fatal(b)
	}
	across, up := c.scales(0)
	at := func(x, y float64) color.Color { return picture.At(whole(across.pixel(x)), whole(up.pixel(y))) }
	for name, place := range map[string]struct {
		x, y float64
		want color.RGBA
	}{"line": {75, 75, inks[0]}, "band": {150, 155, shade}, "outside of bands": {250, 155, white}} {
		if got := at(place.x, place.y); got != place.want {
			t.Errorf("%s: %v, want %v", name, got, place.want)
		}
	}
}

func TestAxesHaveRoundNumbers(t *testing.T) {
	for to, want := range map[float64]string{1: "0 0.2 0.4 0.6 0.8 1", 151: "0 20 40 60 80 100 120 140 160", 873: "0 200 400 600 800 1000", 3999: "0 500 1000 1500 2000 2500 3000 3500 4000"} {
		c := Chart{Lines: []Line{{Points: []Point{{0, 0}, {1, to}}}}}
		_, up := c.scales(0)
		var got []string
		for _, v := range steps(up) {
			got = append(got, number(math.Round(v*1e9)/1e9))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("up to %v: %v, want %s", to, got, want)
		}
	}
}

func TestThinnedLineKeepsItsExtremes(t *testing.T) {
	line := make([]Point, 1_000_000)
	for i := range line {
		line[i].X = float64(i)
	}
	line[123_456].Y, line[654_321].Y = 5, -7
	thinned := thin(line, scale{0, 999_999, left, width - right})
	low, high := 0.0, 0.0
	for i, p := range thinned {
		low, high = min(low, p.Y), max(high, p.Y)
		if i > 0 && p.X < thinned[i-1].X {
			t.Fatalf("point %d goes back", i)
		}
	}
	if low != -7 || high != 5 || len(thinned) > 2*width {
		t.Errorf("%d points from %v to %v", len(thinned), low, high)
	}
}

func TestEveryLetterHasDots(t *testing.T) {
	if len(glyphs) != 95*10 {
		t.Fatal(len(glyphs))
	}
	seen := map[string]byte{}
	for letter := byte('!'); letter <= '~'; letter++ {
		dots := glyphs[int(letter-' ')*10:][:10]
		if _, err := strconv.ParseUint(dots, 16, 64); err != nil {
			t.Errorf("%c: %v", letter, err)
		}
		if other, ok := seen[dots]; ok || dots == "0000000000" {
			t.Errorf("%c looks like %c", letter, other)
		}
		seen[dots] = letter
	}
	if glyph(0xc3, 2) != glyph('?', 2) {
		t.Error("what is no ASCII is no question mark")
	}
}

func TestChartWithoutLinesIsDrawn(t *testing.T) {
	for _, format := range []Format{SVG, PNG} {
		var b bytes.Buffer
		if err := Write(&b, format, Chart{}, Chart{Lines: []Line{{Points: []Point{{3, 0}}}}}); err != nil || b.Len() == 0 || strings.Contains(b.String(), "NaN") {
			t.Errorf("%d bytes, %v", b.Len(), err)
		}
	}
}

func TestOtherFilesAreRefused(t *testing.T) {
	if err := WriteFile("depth.jpg"); err == nil || !strings.Contains(err.Error(), ".svg or .png") {
		t.Error(err)
	}
}
