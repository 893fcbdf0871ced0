package plot

import (
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"strconv"
)

// raster is a canvas for PNG.
type raster struct{ pixels *image.RGBA }

func newRaster(width, height int) *raster {
	return &raster{image.NewRGBA(image.Rect(0, 0, width, height))}
}

func (r *raster) rectangle(x, y, w, h float64, c color.RGBA) {
	area := image.Rect(whole(x), whole(y), whole(x+w), whole(y+h))
	if area.Dx() == 0 {
		area.Max.X++
	}
	draw.Draw(r.pixels, area, image.NewUniform(c), image.Point{}, draw.Src)
}

// polyline draws lines two pixels thick; dashes are 6 of 10 pixels.
func (r *raster) polyline(points []Point, c color.RGBA, dashed bool) {
	drawn := 0
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		n := max(1, int(math.Ceil(max(math.Abs(b.X-a.X), math.Abs(b.Y-a.Y)))))
		for step := range n + 1 {
			share := float64(step) / float64(n)
			if drawn++; dashed && drawn%10 >= 6 {
				continue
			}
			x, y := whole(a.X+(b.X-a.X)*share), whole(a.Y+(b.Y-a.Y)*share)
			draw.Draw(r.pixels, image.Rect(x, y, x+2, y+2), image.NewUniform(c), image.Point{}, draw.Src)
		}
	}
}

// zoom is the size of a letter dot in pixels.
const zoom = 2

func (r *raster) text(x, y float64, s string, a anchor, c color.RGBA) {
	left := whole(x) - int(a)*len(s)*6*zoom/2
	for i := range len(s) {
		for column := range 5 {
			dots := glyph(s[i], column)
			for row := range 8 {
				if dots>>row&1 == 0 {
					continue
				}
				px, py := left+(i*6+column)*zoom, whole(y)+(row-4)*zoom
				draw.Draw(r.pixels, image.Rect(px, py, px+zoom, py+zoom), image.NewUniform(c), image.Point{}, draw.Src)
			}
		}
	}
}

func (r *raster) write(w io.Writer) error { return png.Encode(w, r.pixels) }

func whole(v float64) int { return int(math.Round(v)) }

// glyph returns a column of a letter, with the upper dot as the lowest bit. Other than ASCII
// characters become question marks.
func glyph(letter byte, column int) byte {
	if letter < ' ' || letter > '~' {
		letter = '?'
	}
	at := (int(letter-' ')*5 + column) * 2
	dots, _ := strconv.ParseUint(glyphs[at:at+2], 16, 8) // a test parses all glyphs
	return byte(dots)
}

// glyphs holds the letters from space to tilde, 5 columns of 8 dots each.
const glyphs = "" +
	"000000000000005F00000007000700147F147F14242A7F2A12231308646236495620500005030000" +
	"001C2241000041221C002A1C7F1C2A08083E08080050300000080808080800606000002010080402" +
	"3E5149453E00427F400042615149462141454B311814127F1027454545393C4A4949300171090503" +
	"3649494936064949291E003636000000563600000814224100141414141400412214080201510906" +
	"324979413E7E1111117E7F494949363E414141227F4141221C7F494949417F090909013E4149497A" +
	"7F0808087F00417F41002040413F017F081422417F404040407F020C027F7F0408107F3E4141413E" +
	"7F090909063E4151215E7F09192946464949493101017F01013F4040403F1F2040201F3F4038403F" +
	"631408146307087008076151494543007F41410002040810200041417F0004020102044040404040" +
	"000102040020545454787F484444383844444420384444487F3854545418087E0901020C5252523E" +
	"7F0804047800447D40002040443D007F1028440000417F40007C041804787C080404783844444438" +
	"7C14141408081414187C7C080404084854545420043F4440203C4040207C1C2040201C3C4030403C" +
	"44281028440C5050503C4464544C44000836410000007F000000413608001008081008"
