package ocr

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"math"
)

// picture is pixels of three bytes, blue, green and red: the order that the models were trained
// with.
type picture struct {
	w, h int
	pix  []byte
}

func newPicture(w, h int) *picture { return &picture{w, h, make([]byte, 3*w*h)} }

// The supported formats. Formats that a program registers with package image are not used.
var formats = []struct {
	name, magic string
	config      func([]byte) (image.Config, error)
	decode      func(io.Reader) (image.Image, error)
}{
	{"PNG", "\x89PNG\r\n\x1a\n", func(b []byte) (image.Config, error) { return png.DecodeConfig(bytes.NewReader(b)) }, png.Decode},
	{"JPEG", "\xff\xd8", func(b []byte) (image.Config, error) { return jpeg.DecodeConfig(bytes.NewReader(b)) }, jpeg.Decode},
}

// checkImage returns nil if an image can be read, as far as its header shows, else the reason.
func checkImage(data []byte, pixelsMax int) error {
	if len(data) == 0 {
		return errors.New("an image of no bytes")
	}
	for _, format := range formats {
		if !bytes.HasPrefix(data, []byte(format.magic)) {
			continue
		}
		about, err := format.config(data)
		switch {
		case err != nil:
			return fmt.Errorf("no image of %s: %w", format.name, err)
		case about.Width < 1 || about.Height < 1:
			return fmt.Errorf("an image of %d x %d pixels has none", about.Width, about.Height)
		case about.Width > pixelsMax/about.Height:
			return fmt.Errorf("an image of %d x %d pixels, the limit is %d in all", about.Width, about.Height, pixelsMax)
		}
		if _, _, err := sides(about.Width, about.Height); err != nil {
			return err
		}
		if format.name == "JPEG" {
			if err := checkScans(data); err != nil {
				return err
			}
		}
		return checkMemory(data, about, format.name, pixelsMax)
	}
	return fmt.Errorf("neither PNG nor JPEG: it begins with %q", data[:min(8, len(data))])
}

// decode reads an image that passed checkImage. It returns the error of ctx soon after ctx is done.
func decode(ctx context.Context, data []byte, pixelsMax int) (*picture, error) {
	if err := checkImage(data, pixelsMax); err != nil {
		return nil, err
	}
	for _, format := range formats {
		if bytes.HasPrefix(data, []byte(format.magic)) {
			img, err := format.decode(&pieces{ctx, data})
			switch {
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case err != nil:
				return nil, fmt.Errorf("a damaged image of %s: %w", format.name, err)
			}
			return convert(ctx, img)
		}
	}
	return nil, errors.New("neither PNG nor JPEG")
}

// pieceBytes bounds the work of a decoder between two reads. In a progressive JPEG three bytes can
// encode 32,767 blocks of 64 pixels.
const pieceBytes = 64

// pieces reads data for a decoder in small pieces, until ctx is done.
type pieces struct {
	ctx  context.Context
	rest []byte
}

// Read implements io.Reader.
func (p *pieces) Read(into []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(into[:min(len(into), pieceBytes)], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// convert takes the colours of an image, with white behind transparent pixels.
func convert(ctx context.Context, img image.Image) (*picture, error) {
	bounds := img.Bounds()
	p := newPicture(bounds.Dx(), bounds.Dy())
	colours := img.(image.RGBA64Image) // all images of the standard library implement it
	at := 0
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			c := colours.RGBA64At(x, y) // premultiplied by c.A
			white := 0xffff - c.A
			p.pix[at], p.pix[at+1], p.pix[at+2] = byte((c.B+white)>>8), byte((c.G+white)>>8), byte((c.R+white)>>8)
			at += 3
		}
	}
	return p, nil
}

const fixed = 1 << 11 // the fixed-point 1 in the weights of resize

// resize equals OpenCV's INTER_LINEAR to the byte: it uses the same fixed point, and the mean of
// four pixels if both sides are halved.
func (p *picture) resize(w, h int) *picture {
	if w == p.w && h == p.h {
		return p
	}
	if p.w == 2*w && p.h == 2*h {
		return p.halved()
	}
	columns, shares := weights(p.w, w)
	lines, parts := weights(p.h, h)
	out := newPicture(w, h)
	var above, below []int32
	kept := [2]int{-1, -1} // the lines that above and below were made from
	for y := range h {
		top := lines[y]
		bottom := min(top+1, p.h-1)
		switch {
		case kept[0] == top:
		case kept[1] == top:
			above, below, kept = below, above, [2]int{top, kept[0]}
		default:
			above, kept[0] = p.stretch(above, top, columns, shares), top
		}
		if kept[1] != bottom {
			below, kept[1] = p.stretch(below, bottom, columns, shares), bottom
		}
		a, b := fixed-parts[y], parts[y]
		row := out.pix[3*w*y : 3*w*(y+1)]
		for i := range row {
			row[i] = byte(((a*(above[i]>>4))>>16 + (b*(below[i]>>4))>>16 + 2) >> 2)
		}
	}
	return out
}

// weights returns for each of n places the first of the two source places (of size), and the share
// of the second.
func weights(size, n int) (first []int, shares []int32) {
	scale := 1 / (float64(n) / float64(size))
	for i := range n {
		at := float32((float64(i)+0.5)*scale - 0.5)
		whole := int(math.Floor(float64(at)))
		part := at - float32(whole)
		if whole < 0 {
			whole, part = 0, 0
		}
		if whole >= size-1 {
			whole, part = size-1, 0
		}
		first = append(first, whole)
		shares = append(shares, int32(math.RoundToEven(float64(part*fixed))))
	}
	return first, shares
}

// stretch scales a line to the width of columns, times fixed.
func (p *picture) stretch(into []int32, y int, columns []int, shares []int32) []int32 {
	into = into[:0]
	line := p.pix[3*p.w*y : 3*p.w*(y+1)]
	for x, left := range columns {
		right := min(left+1, p.w-1)
		a, b := fixed-shares[x], shares[x]
		for c := range 3 {
			into = append(into, int32(line[3*left+c])*a+int32(line[3*right+c])*b)
		}
	}
	return into
}

func (p *picture) halved() *picture {
	out := newPicture(p.w/2, p.h/2)
	for y := range out.h {
		up, down := p.pix[3*p.w*2*y:], p.pix[3*p.w*(2*y+1):]
		for x := range out.w {
			for c := range 3 {
				at := 6*x + c
				out.pix[3*(y*out.w+x)+c] = byte((int(up[at]) + int(up[at+3]) + int(down[at]) + int(down[at+3]) + 2) >> 2)
			}
		}
	}
	return out
}

// framed adds this many black lines above and below.
func (p *picture) framed(lines int) *picture {
	out := newPicture(p.w, p.h+2*lines)
	copy(out.pix[3*p.w*lines:], p.pix)
	return out
}

// turned returns the picture rotated by 180 degrees.
func (p *picture) turned() *picture {
	out := newPicture(p.w, p.h)
	for i := 0; i < len(p.pix); i += 3 {
		copy(out.pix[len(p.pix)-3-i:], p.pix[i:i+3])
	}
	return out
}

// left returns the picture rotated by 90 degrees counterclockwise.
func (p *picture) left() *picture {
	out := newPicture(p.h, p.w)
	for y := range out.h {
		for x := range out.w {
			copy(out.pix[3*(y*out.w+x):], p.pix[3*(x*p.w+p.w-1-y):][:3])
		}
	}
	return out
}
