package ocr

import "fmt"

// scansMost is the most scans of a JPEG. Encoders write one, or about ten for a progressive JPEG.
const scansMost = 32

// checkScans refuses a JPEG with too many scans. A progressive JPEG is decoded once per scan, and
// an empty scan takes only a few bytes of the file.
func checkScans(data []byte) error {
	if scansOf(data, scansMost+1) > scansMost {
		return fmt.Errorf("a JPEG of more than %d scans: save it as a baseline JPEG or as PNG", scansMost)
	}
	return nil
}

// scansOf counts the scans of a JPEG, up to most of them.
func scansOf(data []byte, most int) (scans int) {
	const start = 0xda
	segments(data, func(marker byte, _ []byte) bool {
		if marker == start {
			scans++
		}
		return scans < most
	})
	return scans
}
