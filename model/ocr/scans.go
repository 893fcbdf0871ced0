package ocr

import (
	"encoding/binary"
	"fmt"
)

// scansMost is how many scans a JPEG may have. Encoders write one, or about ten for
// a progressive JPEG.
const scansMost = 32

// checkScans refuses a JPEG of too many scans. A progressive one is decoded once for
// each scan, and a scan that changes nothing takes a few bytes of the file.
func checkScans(data []byte) error {
	if scansOf(data, scansMost+1) > scansMost {
		return fmt.Errorf("a JPEG of more than %d scans: save it as a baseline JPEG or as PNG", scansMost)
	}
	return nil
}

// scansOf counts the scans of a JPEG, up to most of them. It reads the heads of the
// segments and passes over what lies between.
func scansOf(data []byte, most int) (scans int) {
	const escape, restartFirst, restartLast, end, start = 0xff, 0xd0, 0xd7, 0xd9, 0xda
	for at := 2; at+1 < len(data) && scans < most; {
		marker := data[at+1]
		switch {
		case data[at] != escape || marker == 0: // data of a scan, or bytes that decoders pass over
			at++
		case marker == escape:
			at++
		case marker >= restartFirst && marker <= restartLast:
			at += 2
		case marker == end:
			return scans
		case at+4 > len(data):
			return scans
		default:
			if marker == start {
				scans++
			}
			at += 2 + int(binary.BigEndian.Uint16(data[at+2:]))
		}
	}
	return scans
}
