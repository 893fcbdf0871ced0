package support

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os/exec"
	"strconv"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

// painter draws screenshots.
type painter struct{ large, small font.Face }

func newPainter() (*painter, error) {
	regular, err := opentype.Parse(goregular.TTF)
	if err != nil {
		return nil, err
	}
	large, err := opentype.NewFace(regular, &opentype.FaceOptions{Size: 30, DPI: 72, Hinting: font.HintingFull})
	if err != nil {
		return nil, err
	}
	small, err := opentype.NewFace(regular, &opentype.FaceOptions{Size: 22, DPI: 72, Hinting: font.HintingFull})
	return &painter{large, small}, err
}

type theme struct{ behind, bar, box, ink color.RGBA }

func grey(v uint8) color.RGBA { return color.RGBA{v, v, v, 255} }

var themes = []theme{
	{grey(225), color.RGBA{40, 80, 160, 255}, grey(255), grey(20)},
	{grey(245), color.RGBA{30, 120, 90, 255}, grey(250), grey(40)},
	{grey(30), color.RGBA{90, 60, 140, 255}, grey(50), grey(240)}, // dark theme
}

// screenshot draws a window as PNG. The first line is its title, and the second line is large.
func (p *painter) screenshot(lines []string, look int) ([]byte, error) {
	t := &themes[look%len(themes)]
	picture := image.NewRGBA(image.Rect(0, 0, 560, 260))
	fill := func(c color.RGBA, r image.Rectangle) {
		draw.Draw(picture, r, image.NewUniform(c), image.Point{}, draw.Src)
	}
	fill(t.behind, picture.Bounds())
	fill(t.box, image.Rect(20, 20, 540, 240))
	fill(t.bar, image.Rect(20, 20, 540, 64))
	write := func(face font.Face, c color.RGBA, y int, text string) {
		d := font.Drawer{Dst: picture, Src: image.NewUniform(c), Face: face, Dot: fixed.P(40, y)}
		d.DrawString(text)
	}
	for i, line := range lines {
		switch i {
		case 0:
			write(p.small, grey(255), 50, line)
		case 1:
			write(p.large, t.ink, 112, line)
		default:
			write(p.small, t.ink, 112+40*(i-1), line)
		}
	}
	var out bytes.Buffer
	err := png.Encode(&out, picture)
	return out.Bytes(), err
}

// Speak runs espeak-ng to speak a text at a pitch from 0 to 99. It returns the sound as a WAV file
// with 16 bits and one channel. It uses the voice of espeak-ng that pocketsphinx understands.
func Speak(ctx context.Context, text string, pitch int) ([]byte, error) {
	wav, err := exec.CommandContext(ctx, "espeak-ng", "--stdout", "-v", "en-us+f3", "-s", "130", "-g", "3", "-p", strconv.Itoa(pitch), text).Output()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("%w: it speaks the calls: install the package espeak-ng of your system", err)
	case err != nil:
		return nil, fmt.Errorf("espeak-ng: %w", err)
	case len(wav) < wavHead || string(wav[36:40]) != "data":
		return nil, fmt.Errorf("espeak-ng wrote %d bytes that are no WAV file", len(wav))
	}
	return sized(wav), nil
}

const wavHead = 44 // bytes of a WAV file before its samples

// sized writes the lengths into the header of a WAV file. A program that writes to a pipe does not
// know them in advance.
func sized(wav []byte) []byte {
	binary.LittleEndian.PutUint32(wav[4:], uint32(len(wav)-8))
	binary.LittleEndian.PutUint32(wav[40:], uint32(len(wav)-wavHead))
	return wav
}

// mute replaces the sound of a WAV file with silence.
func mute(wav []byte) []byte {
	clear(wav[wavHead:])
	return wav
}

// seconds returns the playing time of a number of bytes of a WAV file.
func seconds(wav []byte, bytes int) float64 {
	return float64(bytes) / float64(max(1, binary.LittleEndian.Uint32(wav[28:])))
}
