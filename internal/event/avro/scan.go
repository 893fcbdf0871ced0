package avro

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Scan reads the fields of the record in src into their slots of row. It does not change other
// slots. It skips other fields without checking their texts and bools. The error is a
// *decode.Error; after an error the slots of the fields have undefined content.
//
// Texts and bytes alias src, so src must not change while the row is used. Scan allocates memory
// only for vectors, lists and decimals of more than 18 digits.
func (d *Decoder) Scan(src []byte, row *value.Row) error {
	r := reader{src: src, row: row}
	reason := r.run(&d.program)
	if reason == "" && r.i < len(src) {
		r.field, reason = nil, "the record continues after its last field"
	}
	if reason == "" {
		return nil
	}
	err := &decode.Error{Offset: min(r.i, len(src)), Reason: reason}
	if r.field != nil {
		err.Field = r.field.Name
	}
	return err
}

// reader reads one record.
type reader struct {
	src   []byte
	i     int
	row   *value.Row
	depth int           // nesting depth of programs
	field *decode.Field // the field being read
}

// run runs a program. It returns the reason to refuse the record, or "".
func (r *reader) run(p *program) (reason string) {
	if r.depth == MaxDepth {
		return fmt.Sprintf("nested deeper than %d", MaxDepth)
	}
	r.depth++
	for pc := 0; pc < len(p.steps); pc++ {
		s := &p.steps[pc]
		switch s.op {
		case skipBytes:
			if len(r.src)-r.i < s.n {
				return r.short()
			}
			r.i += s.n
		case skipVarints:
			for range s.n {
				if _, reason = r.varint(); reason != "" {
					return reason
				}
			}
		case skipTexts:
			for range s.n {
				if _, reason = r.bytes(); reason != "" {
					return reason
				}
			}
		case choose:
			n, reason := r.varint()
			if reason != "" {
				return reason
			}
			if uint64(n) >= uint64(len(s.branches)) {
				return fmt.Sprintf("branch %d of a union of %d", n, len(s.branches))
			}
			pc = s.branches[n] - 1
		case jump:
			pc = s.n - 1
		case skipBlocks, skipPairs:
			if reason = r.skip(s); reason != "" {
				return reason
			}
		case call:
			if reason = r.run(s.items); reason != "" {
				return reason
			}
		case clearSlot:
			r.row.Clear(s.want.Slot)
		default:
			r.field = s.want
			if reason = r.read(s); reason != "" {
				return reason
			}
			r.field = nil
		}
	}
	r.depth--
	return ""
}

// short returns the reason for a record that has fewer bytes than its schema requires.
func (r *reader) short() string {
	r.i = len(r.src)
	return decode.EndOfRecord
}

// varint reads a long.
func (r *reader) varint() (int64, string) {
	if r.i < len(r.src) {
		if c := r.src[r.i]; c < 0x80 {
			r.i++
			return int64(c>>1) ^ -int64(c&1), ""
		}
	}
	v, n := binary.Uvarint(r.src[r.i:])
	if n <= 0 {
		if n == 0 {
			return 0, r.short()
		}
		return 0, "an integer of more than 64 bits"
	}
	r.i += n
	return int64(v>>1) ^ -int64(v&1), ""
}

// int reads an int.
func (r *reader) int() (int64, string) {
	start := r.i
	v, reason := r.varint()
	if reason == "" && v != int64(int32(v)) {
		r.i = start
		return 0, "an int of more than 32 bits"
	}
	return v, reason
}

// bytes reads a length and that many bytes.
func (r *reader) bytes() ([]byte, string) {
	start := r.i
	n, reason := r.varint()
	if reason != "" {
		return nil, reason
	}
	if n < 0 {
		r.i = start
		return nil, "a length below 0"
	}
	if n > int64(len(r.src)-r.i) {
		return nil, r.short()
	}
	return r.next(int(n))
}

// next reads n bytes.
func (r *reader) next(n int) ([]byte, string) {
	if len(r.src)-r.i < n {
		return nil, r.short()
	}
	r.i += n
	return r.src[r.i-n : r.i : r.i], ""
}

func (r *reader) text() (string, string) {
	start := r.i
	b, reason := r.bytes()
	if reason == "" && !utf8.Valid(b) {
		r.i = start
		return "", "invalid UTF-8"
	}
	return value.Text(b), reason
}

// block reads the number of items in the next block; 0 means that there are no more. It does not
// rely on the block's size in bytes, because decoders that build values ignore it.
func (r *reader) block() (n int64, reason string) {
	start := r.i
	if n, reason = r.varint(); n >= 0 || reason != "" {
		return n, reason
	}
	size, reason := r.varint()
	if n = -n; reason == "" && (size < 0 || n < 0) {
		r.i = start
		return 0, "a length below 0"
	}
	return n, reason
}

// skip skips an array or a map.
func (r *reader) skip(s *step) string {
	keyed := s.op == skipPairs
	for {
		n, reason := r.block()
		if n == 0 || reason != "" {
			return reason
		}
		if s.items.empty && !keyed {
			continue
		}
		for range n {
			if keyed {
				if _, reason = r.bytes(); reason != "" {
					return reason
				}
			}
			if reason = r.run(s.items); reason != "" {
				return reason
			}
		}
	}
}

// read reads a field.
func (r *reader) read(s *step) string {
	switch s.op {
	case refuse:
		return s.reason
	case readVector:
		return r.vector(s)
	case readList:
		return r.list(s)
	case readMap:
		return r.entries(s)
	}
	e, reason := r.scalar(s)
	r.row.SetElement(s.want.Slot, e)
	return reason
}

// scalar reads a value that is neither a list nor a map.
func (r *reader) scalar(s *step) (e value.Element, reason string) {
	start := r.i
	var b []byte
	var v int64
	var f float64
	switch s.op {
	case readBool:
		if b, reason = r.next(1); reason == "" {
			if e.Num = uint64(b[0]); b[0] > 1 {
				reason = fmt.Sprintf("byte %d is not a bool", b[0])
			}
		}
	case readInt:
		v, reason = r.int()
		e.Num = uint64(v)
	case readLong:
		v, reason = r.varint()
		e.Num = uint64(v)
	case readNumber:
		f, reason = r.number(s)
		e.Num = math.Float64bits(f)
	case readText:
		e.Str, reason = r.text()
	case readSymbol:
		e.Str, reason = r.symbol(s.of.symbols)
	case readBytes:
		b, reason = r.bytes()
		e.Str = value.Text(b)
	case readFixed:
		b, reason = r.next(s.of.size)
		e.Str = value.Text(b)
	default:
		v, reason = r.time(s)
		e.Num = uint64(v)
	}
	if reason != "" && reason != decode.EndOfRecord {
		r.i = start
	}
	return e, reason
}

func (r *reader) symbol(symbols []string) (string, string) {
	n, reason := r.int()
	switch {
	case reason != "":
		return "", reason
	case uint64(n) >= uint64(len(symbols)):
		return "", fmt.Sprintf("symbol %d of an enum of %d", n, len(symbols))
	}
	return symbols[n], ""
}

// number reads a number that may have a fraction.
func (r *reader) number(s *step) (v float64, reason string) {
	var b []byte
	switch {
	case s.of.logical != "decimal":
		v, reason = r.real(s.of.kind)
	case s.of.kind == bytesType:
		if b, reason = r.bytes(); reason == "" {
			v, reason = decimal(b, s.of.scale)
		}
	default:
		if b, reason = r.next(s.of.size); reason == "" {
			v, reason = decimal(b, s.of.scale)
		}
	}
	if reason == "" && !value.Finite(v) {
		reason = "out of the range of number"
	}
	return v, reason
}

// real reads a number of a kind: integer, long, float or double.
func (r *reader) real(k kind) (float64, string) {
	size := 8
	switch k {
	case integer:
		v, reason := r.int()
		return float64(v), reason
	case long:
		v, reason := r.varint()
		return float64(v), reason
	case float:
		size = 4
	}
	b, reason := r.next(size)
	switch {
	case reason != "":
		return 0, reason
	case k == float:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), ""
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b)), ""
}

const decimalMax = 64 // bytes

// decimal returns the float64 nearest to a decimal: a two's complement integer divided by ten to
// the power of scale.
func decimal(b []byte, scale int) (float64, string) {
	if len(b) > decimalMax {
		return 0, fmt.Sprintf("a decimal of %d bytes: at most %d", len(b), decimalMax)
	}
	var room [40]byte
	text := room[:0]
	if len(b) <= 8 {
		var v int64
		for i, c := range b {
			if i == 0 {
				v = int64(int8(c))
			} else {
				v = v<<8 | int64(c)
			}
		}
		text = strconv.AppendInt(text, v, 10)
	} else {
		v := new(big.Int).SetBytes(b)
		if b[0] >= 0x80 {
			v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
		text = v.Append(text, 10)
	}
	text = strconv.AppendInt(append(text, 'e', '-'), int64(scale), 10)
	v, err := strconv.ParseFloat(value.Text(text), 64)
	if err != nil {
		return 0, "out of the range of number"
	}
	return v, ""
}

const (
	microsOfDay = 86_400_000_000
	leastTime   = -62_167_219_200_000_000 // the year 0
	mostTime    = 253_402_300_799_999_999 // the last microsecond of 9999
)

func (r *reader) time(s *step) (v int64, reason string) {
	switch s.op {
	case readInstant:
		var text string
		if text, reason = r.text(); reason != "" {
			return 0, reason
		}
		at, ok := decode.Instant(text)
		if !ok {
			return 0, "not a time of RFC 3339 like 2006-01-02T15:04:05.123456Z"
		}
		return at, ""
	case readDays:
		v, reason = r.int()
		v *= microsOfDay
	case readTicks:
		if v, reason = r.varint(); s.n < 0 {
			over, low := bits.Mul64(uint64(max(v, -v)), uint64(-s.n))
			if over != 0 || low > math.MaxInt64 {
				return 0, "out of the years 0 to 9999"
			}
			v *= int64(-s.n)
		} else if n := int64(s.n); n > 1 {
			if v%n < 0 {
				v -= n
			}
			v /= n
		}
	}
	if reason == "" && (v < leastTime || v > mostTime) {
		reason = "out of the years 0 to 9999"
	}
	return v, reason
}

// vector reads the numbers of an array.
func (r *reader) vector(s *step) string {
	size := s.want.Slot.Type.Size
	numbers := make([]byte, 0, 4*size)
	for {
		n, reason := r.block()
		if reason != "" {
			return reason
		}
		if n == 0 {
			break
		}
		if n > int64(size-len(numbers)/4) {
			return "more numbers than " + s.want.Slot.Type.String()
		}
		for range n {
			v, reason := r.real(s.of.items.kind)
			if reason != "" {
				return reason
			}
			one := float32(v)
			if !value.Finite(float64(one)) {
				return "out of the range of a number of 32 bits"
			}
			numbers = binary.LittleEndian.AppendUint32(numbers, math.Float32bits(one))
		}
	}
	if len(numbers) < 4*size {
		return fmt.Sprintf("%d numbers: want %s", len(numbers)/4, s.want.Slot.Type.String())
	}
	r.row.SetText(s.want.Slot, value.Text(numbers))
	return ""
}

// list reads the elements of an array. Each element has at least one byte.
func (r *reader) list(s *step) string {
	var list []byte
	of := s.want.Slot.Type.Kind.Element()
	for {
		n, reason := r.block()
		if n == 0 || reason != "" {
			r.row.SetText(s.want.Slot, value.Text(list))
			return reason
		}
		for range n {
			e, reason := r.scalar(s.item)
			if reason != "" {
				return reason
			}
			if len(list)+value.ElementBytes(of, e) > decode.ListMax { // a symbol can be longer than its encoding
				return fmt.Sprintf("a list of more than %d bytes", decode.ListMax)
			}
			list = value.AppendElement(list, of, e)
		}
	}
}

// entries reads the entries of a map.
func (r *reader) entries(s *step) string {
	var entries []value.Entry
	of, size := s.want.Slot.Type.Kind.Element(), 0
	for {
		n, reason := r.block()
		if reason != "" {
			return reason
		}
		if n == 0 {
			break
		}
		for range n {
			key, reason := r.text()
			if reason != "" {
				return reason
			}
			e, reason := r.scalar(s.item)
			if reason != "" {
				return reason
			}
			if size += value.StringBytes(key) + value.ElementBytes(of, e); size > decode.ListMax {
				return fmt.Sprintf("a map of more than %d bytes", decode.ListMax)
			}
			entries = append(entries, value.Entry{Key: key, Element: e})
		}
	}
	text := value.AppendMap(nil, of, entries)
	for i := 1; i < len(entries); i++ {
		if entries[i-1].Key == entries[i].Key {
			return fmt.Sprintf("key %q occurs in the map twice", entries[i].Key)
		}
	}
	r.row.SetText(s.want.Slot, value.Text(text))
	return ""
}
