package fraud

import "strconv"

// append builds the line in four parts, so that a malformed line can omit one.

func (p *payment) append(dst []byte) []byte {
	dst = p.appendCustomer(p.appendTx(dst))
	return p.appendTime(p.appendPlace(p.appendAmount(dst)), "ts", p.time)
}

func (p *payment) appendTx(dst []byte) []byte {
	dst = appendPadded(append(dst, `{"tx":"t`...), p.number, 9)
	return append(dst, '"')
}

func (p *payment) appendCustomer(dst []byte) []byte {
	dst = appendPadded(append(dst, `,"customer":"c`...), int64(p.customer), 6)
	return append(dst, '"')
}

func (p *payment) appendAmount(dst []byte) []byte {
	return appendCents(append(dst, `,"amount":`...), p.cents)
}

func (p *payment) appendPlace(dst []byte) []byte {
	dst = appendPadded(append(dst, `,"terminal":"m`...), int64(p.terminal), 5)
	dst = append(append(dst, `","country":"`...), countries[p.country].code...)
	dst = append(append(dst, `","channel":"`...), channels[p.channel]...)
	if p.device > 0 {
		dst = append(append(dst, `","device":"`...), devices[p.device]...)
	}
	return append(dst, '"')
}

func (p *payment) appendTime(dst []byte, name string, ms int64) []byte {
	dst = append(append(dst, ',', '"'), name...)
	return append(strconv.AppendInt(append(dst, '"', ':'), ms, 10), '}')
}

// appendLabel appends the label of the last event.
func (g *generator) appendLabel(dst []byte) []byte {
	p := &g.payment
	dst = appendPadded(append(dst, 't'), p.number, 9)
	if p.pattern == honest {
		return append(dst, ",0,\n"...)
	}
	dst = append(append(dst, ",1,"...), patterns[p.pattern]...)
	return append(dst, '\n')
}

// appendPadded appends n, padded with zeros to at least width digits.
func appendPadded(dst []byte, n int64, width int) []byte {
	from := len(dst)
	dst = strconv.AppendInt(dst, n, 10)
	if missing := width - (len(dst) - from); missing > 0 {
		dst = append(dst, "000000000"[:missing]...)
		copy(dst[from+missing:], dst[from:])
		copy(dst[from:], "000000000"[:missing])
	}
	return dst
}

func appendCents(dst []byte, cents int64) []byte {
	dst = append(strconv.AppendInt(dst, cents/100, 10), '.')
	return append(dst, byte('0'+cents/10%10), byte('0'+cents%10))
}
