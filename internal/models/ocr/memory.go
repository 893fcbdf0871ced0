package ocr

import (
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"slices"
)

// bytesEach is how many bytes per allowed pixel an image may take while it is decoded. PNGs of 8
// bits (also interlaced), PNGs of 16 bits and progressive JPEGs of halved colours take up to 11.
const bytesEach = 12

// pictureBytes is the memory of a picture per pixel, in addition to that of its image.
const pictureBytes = 3

// checkMemory refuses an image that takes too much memory while it is decoded.
func checkMemory(data []byte, about image.Config, format string, pixelsMax int) error {
	each, hint := pngBytes(data, about)
	if format == "JPEG" {
		each, hint = jpegBytes(data, about)
	}
	if need, most := each*float64(about.Width*about.Height), bytesEach*float64(pixelsMax); need > most {
		return fmt.Errorf("an image of %d x %d pixels takes %.0f MB to decode, the limit is %.0f MB: %s, or make it smaller", about.Width, about.Height, need/1e6, most/1e6, hint)
	}
	return nil
}

// pngBytes returns the memory of a PNG per pixel.
func pngBytes(data []byte, about image.Config) (each float64, hint string) {
	const interlaceAt = 28 // after the magic, the head of the first chunk, both sides and four bytes
	each, hint = 4, "save it without interlacing"
	switch about.ColorModel {
	case color.Gray16Model, color.RGBA64Model, color.NRGBA64Model:
		each, hint = 8, "save it with 8 bits for each colour and without interlacing"
	}
	if len(data) > interlaceAt && data[interlaceAt] != 0 { // each pass is a separate image
		each *= 2
	}
	return each + pictureBytes, hint
}

// jpegBytes returns the memory of a JPEG per pixel. A progressive JPEG is held as numbers of four
// bytes until its last scan.
func jpegBytes(data []byte, about image.Config) (each float64, hint string) {
	samples, progressive := frameOf(data)
	each = samples
	if progressive {
		each += 4 * samples
	}
	if about.ColorModel == color.CMYKModel || about.ColorModel == color.RGBAModel { // converted as a whole
		each += 4
	}
	return each + pictureBytes, "save it as a baseline JPEG"
}

// frameOf returns how many samples a JPEG has per pixel, from the sampling factors of its
// components, and whether it is progressive.
func frameOf(data []byte) (samples float64, progressive bool) {
	const baseline, extended, progression = 0xc0, 0xc1, 0xc2
	samples, progressive = 4, true // the maximum, in case the frame is not found
	segments(data, func(marker byte, body []byte) bool {
		const components = 5 // after the precision and both sides
		if !slices.Contains([]byte{baseline, extended, progression}, marker) || len(body) <= components {
			return true
		}
		progressive = marker == progression
		largest, sum := 1, 0
		for i := components + 2; i < len(body) && i <= components+2+3*int(body[components]-1); i += 3 {
			factor := int(body[i]>>4) * int(body[i]&15)
			largest, sum = max(largest, factor), sum+factor
		}
		samples = float64(sum) / float64(largest)
		return false
	})
	return samples, progressive
}

// segments calls each for the segments of a JPEG, until it returns false. It reads their heads and
// skips the data between them.
func segments(data []byte, each func(marker byte, body []byte) bool) {
	const escape, restartFirst, restartLast, end = 0xff, 0xd0, 0xd7, 0xd9
	for at := 2; at+1 < len(data); {
		marker := data[at+1]
		switch {
		case data[at] != escape || marker == 0: // data of a scan, or bytes that decoders skip
			at++
		case marker == escape:
			at++
		case marker >= restartFirst && marker <= restartLast:
			at += 2
		case marker == end || at+4 > len(data):
			return
		default:
			next := at + 2 + int(binary.BigEndian.Uint16(data[at+2:]))
			if !each(marker, data[min(at+4, next):max(min(at+4, next), min(next, len(data)))]) {
				return
			}
			at = next
		}
	}
}
