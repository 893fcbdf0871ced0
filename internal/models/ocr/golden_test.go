package ocr

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/models/onnx"
	"github.com/afterbay/afterbay/internal/models/onnx/worker"
	"github.com/afterbay/afterbay/model"
)

// golden is what rapidocr and OpenCV make of the images in testdata: golden.py wrote
// it, and says how.
type golden struct {
	Boxes   [][4][2]float64
	Lines   []string
	Sure    []float64
	Resized []string
	Cropped [][]byte // each seventeenth of a plane
	Sizes   [][2]int
}

func readGolden(t testing.TB) map[string]golden {
	t.Helper()
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Images map[string]golden }
	if err := json.Unmarshal(data, &file); err != nil || len(file.Images) < 8 {
		t.Fatalf("%d images: %v", len(file.Images), err)
	}
	return file.Images
}

func readImage(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func digest(p *picture) string { return fmt.Sprintf("%x", sha256.Sum256(p.pix)) }

// Pictures are resized as OpenCV does it, to the byte, and boxes cut out of them, to
// the rounding of its shorter floats.
func TestPicturesAreResizedAndCutAsByOpenCV(t *testing.T) {
	images := readGolden(t)
	all, rounded := 0, 0
	for _, name := range slices.Sorted(maps.Keys(images)) {
		want := images[name]
		if strings.HasSuffix(name, ".jpg") { // another decoder, so other bytes from the start
			continue
		}
		p, err := decode(t.Context(), readImage(t, name), PixelsMax)
		if err != nil {
			t.Fatal(err)
		}
		for i, size := range [][2]int{{p.w * 5 / 3, p.h * 7 / 5}, {p.w * 3 / 5, p.h * 2 / 7}} {
			if got := digest(p.resize(size[0], size[1])); got != want.Resized[i] {
				t.Errorf("%s resized to %d has other pixels", name, size)
			}
		}
		if len(want.Boxes) != len(want.Cropped) || float64(p.w) > wide*float64(p.h) { // a framed picture is cut, and its boxes moved back
			continue
		}
		for i, corners := range want.Boxes {
			var b box
			for k, corner := range corners {
				b[k] = point{corner[0], corner[1]}
			}
			got := p.crop(b)
			if got.w != want.Sizes[i][0] || got.h != want.Sizes[i][1] {
				t.Errorf("%s: line %d, %v, is %d x %d pixels, expected %d", name, i, b, got.w, got.h, want.Sizes[i])
				continue
			}
			for k, value := range want.Cropped[i] {
				all++
				if off := int(got.pix[3*17*k]) - int(value); off != 0 {
					rounded++
					if max(off, -off) > 1 {
						t.Errorf("%s: line %d, pixel %d is %d, expected %d", name, i, 17*k, got.pix[3*17*k], value)
					}
				}
			}
		}
	}
	t.Logf("%d of %d pixels of boxes are one off", rounded, all)
	if all < 1000 || rounded > all/100 {
		t.Errorf("%d of %d pixels of boxes are one off", rounded, all)
	}
}

// library returns the options of sessions that ONNX Runtime computes: its library in
// the user's cache, or that of the Python that tests compare with.
func library(t testing.TB) onnx.SessionOptions {
	t.Helper()
	o := onnx.SessionOptions{Worker: os.Args[0]}
	if path, err := onnx.Installed(); err == nil {
		o.Library = path
		return o
	}
	o.Library = askPython(t, "import glob, importlib.util, os\nprint(glob.glob(os.path.dirname(importlib.util.find_spec('onnxruntime').origin) + '/capi/libonnxruntime.*')[0])")
	data, err := os.ReadFile(o.Library)
	if err != nil {
		t.Fatal(err)
	}
	o.LibraryDigest = fmt.Sprintf("%x", sha256.Sum256(data))
	return o
}

func askPython(t testing.TB, script string) string {
	t.Helper()
	python := os.Getenv("AFTERBAY_PYTHON")
	if python == "" {
		if os.Getenv("AFTERBAY_FULL") == "1" {
			t.Fatal("AFTERBAY_FULL=1 but AFTERBAY_PYTHON names no interpreter that has onnxruntime and rapidocr-onnxruntime")
		}
		t.Skip("NOT RUN: AFTERBAY_PYTHON names no interpreter that has onnxruntime and rapidocr-onnxruntime (make deps installs it)")
	}
	out, err := exec.CommandContext(t.Context(), python, "-c", script).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// reader loads the models of rapidocr-onnxruntime.
func reader(t testing.TB) *Model {
	t.Helper()
	folder := askPython(t, "import importlib.util\nprint(importlib.util.find_spec('rapidocr_onnxruntime').submodule_search_locations[0])")
	file := func(name string) File { return File{Path: filepath.Join(folder, "models", name)} }
	m, err := Load(t.Context(), Options{
		Lines: file("ch_PP-OCRv4_det_infer.onnx"), Turns: file("ch_ppocr_mobile_v2.0_cls_infer.onnx"), Read: file("ch_PP-OCRv4_rec_infer.onnx"),
		Session: library(t), Outputs: []model.Output{{Name: "text", Size: 1, Type: model.String}, {Name: "sure", Size: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// The text of images is what rapidocr reads in them, line for line, and where it
// finds it. What is damaged fails alone.
func TestTextOfImagesIsWhatRapidocrReads(t *testing.T) {
	m, images := reader(t), readGolden(t)
	for _, name := range slices.Sorted(maps.Keys(images)) {
		want, data := images[name], readImage(t, name)
		if err := m.Check(nil, [][]byte{data}); err != nil {
			t.Fatal(err)
		}
		scores, texts := make([]float32, 1), make([][]byte, 1)
		if err := m.Answer(t.Context(), model.Rows{BytesWidth: 1, Bytes: [][]byte{data}}, scores, texts); err != nil {
			t.Fatal(err)
		}
		sure := 0.0
		for _, each := range want.Sure {
			sure += each / float64(len(want.Sure))
		}
		if got, expected := string(texts[0]), strings.Join(want.Lines, "\n"); got != expected || math.Abs(float64(scores[0])-sure) > 0.02 {
			t.Errorf("%s: %q, sure by %v, expected %q by %v", name, got, scores[0], expected, sure)
		}
		whole, err := decode(t.Context(), data, PixelsMax)
		if err != nil {
			t.Fatal(err)
		}
		p, err := m.prepared(t.Context(), data)
		if err != nil {
			t.Fatal(err)
		}
		boxes, err := m.find(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range boxes {
			for k, corner := range b {
				if p.w == whole.w && p.h == whole.h && len(want.Boxes) == len(boxes) && corner.distance(point{want.Boxes[i][k][0], want.Boxes[i][k][1]}) > 2 {
					t.Errorf("%s: line %d is at %v, expected %v", name, i, b, want.Boxes[i])
				}
			}
		}
		t.Logf("%s: %d lines, sure by %.4f, rapidocr by %.4f; %d boxes", name, len(want.Lines), scores[0], sure, len(boxes))
	}
	failAlone(t, m)
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-library" { // a session started it as its worker
		os.Exit(worker.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}
