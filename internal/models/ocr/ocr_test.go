package ocr

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/model"
)

func encode(t testing.TB, w, h int, with func(x, y int) color.Color) []byte {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			img.Set(x, y, with(x, y))
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func white(int, int) color.Color { return color.White }

// announced is a PNG whose head says that it has so many pixels, and that has none.
func announced(w, h uint32) []byte {
	head := append([]byte("IHDR"), make([]byte, 13)...)
	binary.BigEndian.PutUint32(head[4:], w)
	binary.BigEndian.PutUint32(head[8:], h)
	head[12], head[13] = 8, 2
	out := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), head...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(head))
}

// What is no image, has no pixels, too many, or is too narrow for text is refused by
// name before anything is computed of it.
func TestWhatIsNoImageIsRefusedByName(t *testing.T) {
	m := &Model{pixels: 10_000, info: model.Info{Inputs: []model.Input{{Name: "shot", Type: model.Bytes}}}}
	jpegs := readImage(t, "photo.jpg")
	pngs := readImage(t, "error.png")
	small := &Model{pixels: 1_000_000, info: m.info}
	for name, c := range map[string]struct {
		m       *Model
		data    []byte
		want    string
		atCheck bool
	}{
		"missing":        {m, nil, `input "shot": it is missing`, true},
		"empty":          {m, []byte{}, "an image of no bytes", true},
		"a text":         {m, []byte("hello there"), `neither PNG nor JPEG: it begins with "hello th"`, true},
		"a GIF":          {m, []byte("GIF89a\x01\x00\x01\x00"), `neither PNG nor JPEG`, true},
		"no pixels":      {m, announced(0, 10), "no image of PNG", true},
		"many pixels":    {m, announced(1<<30, 1<<30), "no image of PNG: png: ", true},
		"too many":       {m, announced(101, 100), "an image of 101 x 100 pixels, the limit is 10000 in all", true},
		"only a head":    {m, announced(100, 100), "a damaged image of PNG", false},
		"half a PNG":     {small, pngs[:len(pngs)/2], "a damaged image of PNG", false},
		"half a JPEG":    {small, jpegs[:len(jpegs)/2], "a damaged image of JPEG", false},
		"half a head":    {small, jpegs[:20], "no image of JPEG", true},
		"a flipped byte": {small, slices.Concat(pngs[:900], []byte{pngs[900] ^ 1}, pngs[901:]), "a damaged image of PNG", false},
		"a thread":       {small, encode(t, 2000, 1, white), "an image of 2000 x 1 pixels is too narrow to find text in", true},
	} {
		err := c.m.Check(nil, [][]byte{c.data})
		if (err != nil) != c.atCheck {
			t.Errorf("%s: Check says %v", name, err)
		}
		if err == nil {
			_, err = c.m.prepared(t.Context(), c.data)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %s", name, err, c.want)
		}
	}
}

// What is transparent is white, and other kinds of colours come out as they are seen.
func TestColoursAreThoseThatAreSeen(t *testing.T) {
	glass, err := decode(t.Context(), encode(t, 2, 1, func(x, _ int) color.Color { return color.NRGBA{200, 100, 0, byte(255 * x)} }), PixelsMax)
	if err != nil {
		t.Fatal(err)
	}
	if want := []byte{255, 255, 255, 0, 100, 200}; !bytes.Equal(glass.pix, want) {
		t.Errorf("%v, expected %v", glass.pix, want)
	}
	grey := image.NewGray16(image.Rect(3, 3, 43, 43)) // does not begin at 0
	for i := range grey.Pix {
		grey.Pix[i] = 0x80
	}
	var file bytes.Buffer
	if err := jpeg.Encode(&file, grey, nil); err != nil {
		t.Fatal(err)
	}
	p, err := decode(t.Context(), file.Bytes(), PixelsMax)
	if err != nil || p.w != 40 || p.h != 40 || p.pix[0] != 0x80 {
		t.Errorf("%+v: %v", p, err)
	}
}

// A scan of a few bytes costs as much as the whole image.
func TestJPEGOfManyScansIsRefused(t *testing.T) {
	head := []byte{
		0xff, 0xd8, 0xff, 0xc2, 0, 11, 8, 16, 0, 16, 0, 1, 1, 0x11, 0, // progressive, 4096 x 4096, one component
		0xff, 0xc4, 0, 20, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xe0, // AC codes: the end of a band, for many blocks
	}
	scan := []byte{0xff, 0xda, 0, 8, 1, 1, 0, 1, 63, 0, 0, 0}
	for scans, want := range map[int]bool{scansMost: true, scansMost + 1: false, 8000: false} {
		data := slices.Concat(head, bytes.Repeat(scan, scans), []byte{0xff, 0xd9})
		if err := checkImage(data, PixelsMax); (err == nil) != want || !want && !strings.Contains(err.Error(), "a JPEG of more than 32 scans: save it") {
			t.Errorf("%d scans: %v", scans, err)
		}
	}
}

// progressive returns a JPEG of 4096 x 4096 pixels and so many scans, each of 40 bytes
// that stand for all blocks.
func progressive(scans int) []byte {
	head := []byte{
		0xff, 0xd8, 0xff, 0xc2, 0, 11, 8, 16, 0, 16, 0, 1, 1, 0x11, 0, // progressive, 4096 x 4096, one component
		0xff, 0xc4, 0, 20, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xe0, // AC codes: 15 zero bits end the bands of 16,384 blocks
	}
	scan := append([]byte{0xff, 0xda, 0, 8, 1, 1, 0, 1, 63, 0}, make([]byte, 30)...)
	return slices.Concat(head, bytes.Repeat(scan, scans), []byte{0xff, 0xd9})
}

// A JPEG of 10 MB, with scans that each cost as much as the image, takes an hour without
// a bound of scans. The end of the context ends decoding.
func TestDecodingEndsWithItsContext(t *testing.T) {
	long := progressive(260_000)
	grey := image.NewGray(image.Rect(0, 0, 1000, 1000))
	var flat bytes.Buffer
	if err := png.Encode(&flat, grey); err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]func(ctx context.Context) error{
		"the decoder of a JPEG": func(ctx context.Context) error {
			_, err := jpeg.Decode(&pieces{ctx, long})
			return err
		},
		"a JPEG": func(ctx context.Context) error {
			for { // one has too few scans to be sure to take long enough
				if _, err := decode(ctx, progressive(scansMost), PixelsMax); err != nil {
					return err
				}
			}
		},
		"a PNG": func(ctx context.Context) error {
			for {
				if _, err := decode(ctx, flat.Bytes(), PixelsMax); err != nil {
					return err
				}
			}
		},
	} {
		ended := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		go func() { ended <- of(ctx) }()
		limit := time.NewTimer(time.Minute) // generous: the machine may be busy
		select {
		case err := <-ended:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		case <-limit.C:
			t.Fatalf("%s: decoding goes on a minute after its timeout", name)
		}
		limit.Stop()
	}
}

// TestDecoderDoesLittleBetweenTwoReads ends the context at each of many reads. What a
// decoder has been given by then bounds its work.
func TestDecoderDoesLittleBetweenTwoReads(t *testing.T) {
	for name, data := range map[string][]byte{"JPEG": readImage(t, "photo.jpg"), "PNG": readImage(t, "error.png")} {
		for reads := 1; reads < 60; reads += 7 {
			ctx := &countdown{t.Context(), reads}
			p := &pieces{ctx, data}
			_, err := map[string]func(io.Reader) (image.Image, error){"JPEG": jpeg.Decode, "PNG": png.Decode}[name](p)
			if read := len(data) - len(p.rest); !errors.Is(err, context.Canceled) || read > reads*pieceBytes {
				t.Errorf("%s: %d bytes after %d reads: %v", name, read, reads, err)
			}
		}
	}
	if _, err := decode(&countdown{t.Context(), 1}, readImage(t, "photo.jpg"), PixelsMax); !errors.Is(err, context.Canceled) {
		t.Errorf("an image whose context ended is damaged: %v", err)
	}
}

// countdown is a context that is cancelled after so many looks at it.
type countdown struct {
	context.Context
	looks int
}

func (c *countdown) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// failAlone has images that are damaged fail alone: the others of the call are read.
func failAlone(t *testing.T, m *Model) {
	t.Helper()
	strip := readImage(t, "strip.png")
	rows := model.Rows{BytesWidth: 1, Bytes: [][]byte{readImage(t, "empty.png"), strip[:len(strip)/2], strip, announced(100, 100)}}
	texts := make([][]byte, 4)
	err := m.Answer(t.Context(), rows, make([]float32, 4), texts)
	var failed model.RowErrors
	if !errors.As(err, &failed) || len(failed) != 2 || failed[0].Row != 1 || failed[1].Row != 3 || !strings.Contains(failed[0].Err.Error(), `input "image": a damaged image of PNG`) {
		t.Fatalf("%v", err)
	}
	if string(texts[0]) != "" || texts[0] == nil || string(texts[2]) != "one line in a strip that is wide and low" {
		t.Errorf("%q", texts)
	}
	if err := m.Predict(t.Context(), rows, make([]float32, 4)); !errors.Is(err, calling.ErrTexts) {
		t.Error(err)
	}
}

// Maps of any content give boxes inside of the picture, and these give lines.
func TestAnyMapGivesBoxesInsideOfThePicture(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	found := 0
	for range 500 {
		w, h := 1+random.IntN(60), 1+random.IntN(60)
		text := make([]float32, w*h)
		for range random.IntN(6) {
			x, y, high := random.IntN(w), random.IntN(h), 0.5+random.Float32()/2
			wide, tall := random.IntN(w-x+1), random.IntN(h-y+1)
			for dy := range tall {
				for dx := range wide {
					text[(y+dy)*w+x+dx] = high
				}
			}
		}
		for range random.IntN(20) {
			text[random.IntN(len(text))] = random.Float32()
		}
		pw, ph := 1+random.IntN(300), 1+random.IntN(300)
		p := newPicture(pw, ph)
		for _, b := range boxesOf(text, w, h, pw, ph) {
			found++
			for _, corner := range b {
				if corner.x < 0 || corner.y < 0 || corner.x >= float64(pw) || corner.y >= float64(ph) {
					t.Fatalf("seed %d: a box at %v in a picture of %d x %d", seed, b, pw, ph)
				}
			}
			if line := p.crop(b); line.w < 1 || line.h < 1 || len(line.pix) != 3*line.w*line.h {
				t.Fatalf("seed %d: %v is a line of %d x %d", seed, b, line.w, line.h)
			}
		}
	}
	if found < 30 {
		t.Errorf("seed %d: %d boxes", seed, found)
	}
}

func FuzzImagesNeverPanic(f *testing.F) {
	for _, name := range []string{"error.png", "photo.jpg", "empty.png"} {
		f.Add(readImage(f, name))
	}
	f.Add(announced(20, 20))
	m := &Model{pixels: 1 << 16, info: model.Info{Inputs: []model.Input{{Name: "image"}}}}
	f.Fuzz(func(t *testing.T, data []byte) {
		checked := m.Check(nil, [][]byte{data})
		p, err := m.prepared(t.Context(), data)
		if checked != nil && err == nil {
			t.Fatalf("Check says %v of an image of %d x %d", checked, p.w, p.h)
		}
		if err == nil && (p.w < 1 || p.h < 1 || p.w*p.h > 5_000_000 || len(p.pix) != 3*p.w*p.h) {
			t.Fatalf("%d x %d", p.w, p.h)
		}
	})
}

func FuzzModelsOfLinesNeverPanic(f *testing.F) {
	f.Add([]byte("\x72\x0e\x0a\x09character\x12\x01a"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if list, err := charactersOf(data); err == nil && len(list) < 3 {
			t.Fatalf("%q", list)
		}
	})
}
