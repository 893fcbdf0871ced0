package text

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/afterbay/afterbay/internal/models/text/internal/runes"
)

const (
	formatName    = "afterbay text model"
	formatVersion = 1
	fileMax       = 1 << 30
	gramMax       = 16
)

// file is a model as docs/format/text-model.md describes it.
type file struct {
	Format     string      `json:"format"`
	Version    int         `json:"version"`
	Source     string      `json:"source"`
	Inputs     []fileInput `json:"inputs"`
	Characters *characters `json:"characters"`
	Blocks     []fileBlock `json:"blocks"`
	Steps      []fileStep  `json:"steps"`
	Outputs    []string    `json:"outputs"`
	Members    []member    `json:"members"`
}

type fileInput struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
}

// fileBlock produces consecutive columns of a row. Exactly one of its parts is set.
type fileBlock struct {
	Text     *fileText     `json:"text"`
	Numbers  *fileNumbers  `json:"numbers"`
	Category *fileCategory `json:"category"`
}

type fileText struct {
	Input        int      `json:"input"`
	Analyzer     string   `json:"analyzer"`
	Lowercase    bool     `json:"lowercase"`
	StripAccents string   `json:"strip_accents"`
	TokenPattern string   `json:"token_pattern"`
	Grams        [2]int   `json:"ngram_range"`
	StopWords    []string `json:"stop_words"`
	Vocabulary   []string `json:"vocabulary"`
	Hash         *struct {
		Columns       int  `json:"columns"`
		AlternateSign bool `json:"alternate_sign"`
	} `json:"hash"`
	Binary    bool   `json:"binary"`
	Sublinear bool   `json:"sublinear_tf"`
	Idf       floats `json:"idf"`
	Norm      string `json:"norm"`
}

type fileNumbers struct {
	Inputs []int      `json:"inputs"`
	Steps  []fileStep `json:"steps"`
}

// fileStep changes values. It has one value for each column, or one for all.
type fileStep struct {
	Do     string `json:"do"`
	Values floats `json:"values"`
	Norm   string `json:"norm"`
}

type fileCategory struct {
	Input   int               `json:"input"`
	Fill    json.RawMessage   `json:"fill"` // replaces a missing value
	Values  []json.RawMessage `json:"values"`
	Columns []int             `json:"columns"` // column of each value; -1 for no column
	Width   int               `json:"width"`
	Unknown string            `json:"unknown"`
}

// member is a linear model. The scores of several members are averaged.
type member struct {
	Coef        []floats     `json:"coef"` // by decision
	Intercept   floats       `json:"intercept"`
	Link        string       `json:"link"`
	Calibration *calibration `json:"calibration"`
}

type calibration struct {
	Method string   `json:"method"`
	A      floats   `json:"a"`
	B      floats   `json:"b"`
	X      []floats `json:"x"`
	Y      []floats `json:"y"`
	Beta   float64  `json:"beta"`
}

// characters holds the character tables of the Python that exported the model.
type characters struct {
	Word      runes.Ranges      `json:"word"`
	Space     runes.Ranges      `json:"space"`
	Decimal   runes.Ranges      `json:"decimal"`
	Cased     runes.Ranges      `json:"cased"`
	Ignorable runes.Ranges      `json:"ignorable"`
	Lower     [][4]rune         `json:"lower"` // first, last, step, difference
	LowerText map[string]string `json:"lower_text"`
	Unicode   map[string]string `json:"strip_unicode"`
	ASCII     map[string]string `json:"strip_ascii"`
}

// floats is a list of finite numbers: of JSON, or little-endian in base64.
type floats []float64

func (f *floats) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '"' {
		return json.Unmarshal(data, (*[]float64)(f))
	}
	var packed string
	if err := json.Unmarshal(data, &packed); err != nil {
		return err
	}
	raw, err := base64.StdEncoding.DecodeString(packed)
	if err != nil {
		return fmt.Errorf("numbers in base64: %w", err)
	}
	if len(raw)%8 != 0 {
		return fmt.Errorf("numbers in base64: %d bytes are not a whole number of values", len(raw))
	}
	*f = make(floats, len(raw)/8)
	for i := range *f {
		v := math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("numbers in base64: value %d is %g", i, v)
		}
		(*f)[i] = v
	}
	return nil
}

// decode reads a file and refuses unknown content.
func decode(data []byte) (*file, error) {
	if len(data) > fileMax {
		return nil, fmt.Errorf("%d bytes, the limit is %d", len(data), fileMax)
	}
	var f file
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&f); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return nil, fmt.Errorf("%s holds a JSON %s at byte %d", kind.Field, kind.Value, kind.Offset)
		}
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the model")
	}
	if f.Format != formatName {
		return nil, fmt.Errorf("format is %q, not %q: internal/models/text/export.py writes such files", clip(f.Format), formatName)
	}
	if f.Version != formatVersion {
		return nil, fmt.Errorf("version is %d, this program reads %d", f.Version, formatVersion)
	}
	return &f, nil
}

// clip shortens a part of a file for a message.
func clip(text string) string {
	if len(text) > 60 {
		return text[:60] + "..."
	}
	return text
}

// Is reports whether a file begins like a text model.
func Is(data []byte) bool {
	head := data[:min(len(data), 1<<10)]
	return bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte("{")) && bytes.Contains(head, []byte(`"`+formatName+`"`))
}
