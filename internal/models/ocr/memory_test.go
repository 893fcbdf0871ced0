package ocr

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"runtime"
	"strings"
	"testing"
)

// pngForm is how a PNG has its pixels.
type pngForm struct {
	depth, kind, interlaced byte
	bits                    int // of a pixel
}

// pngOf returns a PNG whose bytes are all zero, which is small whatever its sides are.
func pngOf(w, h int, form pngForm) []byte {
	var content bytes.Buffer
	z := zlib.NewWriter(&content)
	for _, pass := range [][4]int{{8, 8, 0, 0}, {8, 8, 4, 0}, {4, 8, 0, 4}, {4, 4, 2, 0}, {2, 4, 0, 2}, {2, 2, 1, 0}, {1, 2, 0, 1}} {
		if form.interlaced == 0 {
			pass = [4]int{1, 1, 0, 0}
		}
		columns, lines := (w-pass[2]+pass[0]-1)/pass[0], (h-pass[3]+pass[1]-1)/pass[1]
		if columns > 0 && lines > 0 {
			_, _ = z.Write(make([]byte, lines*(1+(columns*form.bits+7)/8)))
		}
		if form.interlaced == 0 {
			break
		}
	}
	_ = z.Close()
	data := []byte("\x89PNG\r\n\x1a\n")
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(w)), uint32(h))
	for _, chunk := range []string{"IHDR" + string(append(head, form.depth, form.kind, 0, 0, form.interlaced)), "IDAT" + content.String(), "IEND"} {
		data = binary.BigEndian.AppendUint32(data, uint32(len(chunk)-4))
		data = append(data, chunk...)
		data = binary.BigEndian.AppendUint32(data, crc32.ChecksumIEEE([]byte(chunk)))
	}
	return data
}

// progressiveOf returns a progressive JPEG with a scan of each component, or of one that
// has no frame of its own; factors are the sampling of each.
func progressiveOf(w, h int, factors ...byte) []byte {
	data := []byte{0xff, 0xd8, 0xff, 0xc2, 0, byte(8 + 3*len(factors)), 8, byte(h >> 8), byte(h), byte(w >> 8), byte(w), byte(len(factors))}
	for i, factor := range factors {
		data = append(data, byte(i+1), factor, 0)
	}
	data = append(data, 0xff, 0xdb, 0, 67, 0)
	data = append(data, bytes.Repeat([]byte{1}, 64)...)
	data = append(data, 0xff, 0xc4, 0, 20, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xe0) // AC codes: the end of a band, for many blocks
	for i := range factors {
		data = append(data, 0xff, 0xda, 0, 8, 1, byte(i+1), 0, 1, 63, 0)
		data = append(data, make([]byte, 60)...)
	}
	return append(data, 0xff, 0xd9)
}

// declare makes the head of an image say other sides.
func declare(data []byte, w, h int) []byte {
	if data[0] == 0xff {
		frame := data[bytes.Index(data, []byte{0xff, 0xc2}):]
		binary.BigEndian.PutUint16(frame[5:], uint16(h))
		binary.BigEndian.PutUint16(frame[7:], uint16(w))
		return data
	}
	binary.BigEndian.PutUint32(data[16:], uint32(w))
	binary.BigEndian.PutUint32(data[20:], uint32(h))
	binary.BigEndian.PutUint32(data[29:], crc32.ChecksumIEEE(data[12:29]))
	return data
}

// forms are images of w x h pixels, each of few bytes.
func forms(w, h int) map[string][]byte {
	return map[string][]byte{
		"PNG":                         pngOf(w, h, pngForm{8, 6, 0, 32}),
		"interlaced PNG":              pngOf(w, h, pngForm{8, 6, 1, 32}),
		"PNG of 16 bits":              pngOf(w, h, pngForm{16, 6, 0, 64}),
		"interlaced PNG of 16 bits":   pngOf(w, h, pngForm{16, 6, 1, 64}),
		"interlaced grey PNG":         pngOf(w, h, pngForm{1, 0, 1, 1}),
		"progressive grey JPEG":       progressiveOf(w, h, 0x11),
		"progressive JPEG":            progressiveOf(w, h, 0x11, 0x11, 0x11),
		"progressive JPEG, 4:2:0":     progressiveOf(w, h, 0x22, 0x11, 0x11),
		"progressive JPEG, 4:2:2":     progressiveOf(w, h, 0x21, 0x11, 0x11),
		"progressive JPEG, padded up": append([]byte{0xff, 0xd8, 0x12, 0xff, 0x00, 0xff, 0xff, 0xfe, 0, 6, 0xff, 0xc0, 0, 3}, progressiveOf(w, h, 0x11, 0x11, 0x11)[2:]...),
	}
}

func TestImagesThatTakeTooMuchMemoryAreRefused(t *testing.T) {
	refused := map[string]string{
		"interlaced PNG of 16 bits":   "takes 380 MB to decode, the limit is 240 MB: save it with 8 bits for each colour and without interlacing",
		"progressive JPEG":            "takes 360 MB to decode, the limit is 240 MB: save it as a baseline JPEG, or make it smaller",
		"progressive JPEG, padded up": "takes 360 MB",
		"progressive JPEG, 4:2:2":     "takes 260 MB",
	}
	for name, data := range forms(8, 8) {
		err := checkImage(declare(data, 4000, 5000), PixelsMax)
		if want := refused[name]; (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s of %d bytes: %v", name, len(data), err)
		}
	}
	for name, data := range forms(8, 8) {
		if err := checkImage(declare(data, 3000, 4000), PixelsMax); err != nil {
			t.Errorf("%s of 12 million pixels: %v", name, err)
		}
	}
}

func TestImagesTakeTheMemoryThatTheyAreChargedFor(t *testing.T) {
	const w, h = 1000, 1000
	for name, data := range forms(w, h) {
		about, _, err := image.DecodeConfig(bytes.NewReader(data))
		if err != nil {
			t.Fatal(name, err)
		}
		each, _ := pngBytes(data, about)
		if strings.Contains(name, "JPEG") {
			each, _ = jpegBytes(data, about)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := decode(t.Context(), data, PixelsMax); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if took := float64(after.TotalAlloc-before.TotalAlloc) / (w * h); took > 1.1*each {
			t.Errorf("%s takes %.1f bytes a pixel, and is charged for %.1f", name, took, each)
		}
	}
}

func TestNarrowImagesAreRefusedBeforeTheyAreDecoded(t *testing.T) {
	for _, sides := range [][2]int{{1, 20_000_000}, {20_000_000, 1}, {100, 150_000}, {2, 300}} {
		data := declare(pngOf(8, 8, pngForm{8, 0, 0, 8}), sides[0], sides[1])
		if _, err := decode(t.Context(), data, PixelsMax); err == nil || !strings.Contains(err.Error(), "pixels is too narrow to find text in") {
			t.Errorf("%d: %v", sides, err)
		}
	}
	data := declare(pngOf(8, 8, pngForm{8, 0, 0, 8}), 1<<20, 1<<20)
	if err := checkImage(data, PixelsMax); err == nil || !strings.Contains(err.Error(), "the limit is 20000000 in all") {
		t.Error(err)
	}
}

// Frames within frames are boxes, each nearly as large as the picture.
func TestBoxesThatCoverAPictureManyTimesAreRefused(t *testing.T) {
	const side = 1000
	p := newPicture(side, side)
	frame := func(at float64) box {
		return box{{at, at}, {side - at, at}, {side - at, side - at}, {at, side - at}}
	}
	var frames, lines []box
	for i := range 400 {
		frames = append(frames, frame(float64(i)))
	}
	if _, err := p.cropAll(t.Context(), frames); !errors.Is(err, errOverlap) {
		t.Error(err)
	}
	for i := range 40 {
		y := float64(20 * i)
		lines = append(lines, box{{0, y}, {side - 1, y}, {side - 1, y + 19}, {0, y + 19}})
	}
	if list, err := p.cropAll(t.Context(), lines); err != nil || len(list) != 40 || list[0].h != 19 {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.cropAll(ctx, lines); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
