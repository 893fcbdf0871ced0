package voice

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

const (
	rate       = 16000 // samples per second that the model requires
	rateLeast  = 8000
	rateMost   = 192000
	channelMax = 16
)

// sound is the header of a WAV file, and its samples.
type sound struct {
	channels, rate int
	samples        []byte // of 16 bits, little-endian, channels interleaved
}

// frames returns how many samples each channel has.
func (s *sound) frames() int { return len(s.samples) / (2 * s.channels) }

// parse reads a WAV file: PCM of 16 bits, with all samples that its header declares. If the header
// was written before the recording ended, it declares no length; the samples then extend to the end
// of the file.
func parse(data []byte) (*sound, error) {
	if len(data) < 12 || string(data[:4]) != "RIFF" || string(data[8:12]) != "WAVE" {
		return nil, fmt.Errorf("no WAV file: it begins with %q", data[:min(4, len(data))])
	}
	var s *sound
	for rest := data[12:]; len(rest) >= 8; {
		kind, size := string(rest[:4]), uint64(binary.LittleEndian.Uint32(rest[4:]))
		rest = rest[8:]
		content := rest[:min(size, uint64(len(rest)))]
		switch {
		case kind == "fmt " && len(content) >= 16:
			var err error
			if s, err = head(content); err != nil {
				return nil, err
			}
		case kind == "data" && s == nil:
			return nil, errors.New("a WAV file that does not say what its sound is")
		case kind == "data":
			if size == 0 || size >= 0x7fff0000 { // unknown when the header was written
				content = rest
			} else if uint64(len(content)) < size {
				second := float64(2 * s.channels * s.rate)
				return nil, fmt.Errorf("truncated: %.2f s of %.2f s are there", float64(len(content))/second, float64(size)/second)
			}
			s.samples = content[:len(content)/(2*s.channels)*2*s.channels]
			return s, nil
		}
		rest = rest[min(size+size%2, uint64(len(rest))):]
	}
	return nil, errors.New("truncated: a WAV file without sound")
}

func head(format []byte) (*sound, error) {
	word := func(at int) int { return int(binary.LittleEndian.Uint16(format[at:])) }
	kind, channels, hertz, bits := word(0), word(2), binary.LittleEndian.Uint32(format[4:]), word(14)
	if kind != 1 && kind != 0xfffe || bits != 16 || channels < 1 || channels > channelMax || hertz < rateLeast || hertz > rateMost {
		return nil, fmt.Errorf("a WAV file of format %d, %d channels, %d Hz and %d bits: use PCM with 16 bits from %d Hz", kind, channels, hertz, bits, rateLeast)
	}
	return &sound{channels: channels, rate: int(hertz)}, nil
}

// wave returns the mean of the channels at 16 kHz, from -1 to 1. It interpolates linearly between
// samples. For a higher rate it averages the neighbours first.
func (s *sound) wave() []float32 {
	n := s.frames()
	mono := make([]float32, n)
	for i := range mono {
		sum := 0
		for c := range s.channels {
			sum += int(int16(binary.LittleEndian.Uint16(s.samples[2*(i*s.channels+c):])))
		}
		mono[i] = float32(sum) / float32(s.channels) / (1 << 15)
	}
	if s.rate == rate || n == 0 {
		return mono
	}
	if wide := int(math.Round(float64(s.rate) / rate)); wide > 1 {
		mono = smooth(mono, wide)
	}
	out := make([]float32, int(int64(n)*rate/int64(s.rate)))
	for i := range out {
		at := float64(i) * float64(s.rate) / rate
		left := min(int(at), n-1)
		part := float32(at - float64(left))
		out[i] = mono[left] + (mono[min(left+1, n-1)]-mono[left])*part
	}
	return out
}

// smooth returns the moving mean over wide neighbours.
func smooth(wave []float32, wide int) []float32 {
	sums := make([]float64, len(wave)+1)
	for i, value := range wave {
		sums[i+1] = sums[i] + float64(value)
	}
	out := make([]float32, len(wave))
	for i := range out {
		lo, hi := max(0, i-wide/2), min(len(wave), i+(wide+1)/2)
		out[i] = float32((sums[hi] - sums[lo]) / float64(hi-lo))
	}
	return out
}
