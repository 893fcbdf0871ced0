package text

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/afterbay/afterbay/internal/models/text/internal/terms"
)

// vectorizer builds the vectorizer of a block. Its columns start at first.
func (f *fileText) vectorizer(t *tables, first int) (*vectorizer, error) {
	v := &vectorizer{input: f.Input, first: first, grams: f.Grams, binary: f.Binary, sublinear: f.Sublinear}
	var err error
	if v.norm, err = parseNorm(f.Norm); err != nil {
		return nil, err
	}
	if v.grams[0] < 1 || v.grams[1] < v.grams[0] || v.grams[1] > gramMax {
		return nil, fmt.Errorf("ngram_range %v is not within 1 to %d", v.grams, gramMax)
	}
	if err := v.analyze(f, t); err != nil {
		return nil, err
	}
	if err := v.takeTerms(f); err != nil {
		return nil, err
	}
	if len(f.Idf) != 0 && len(f.Idf) != v.columns {
		return nil, fmt.Errorf("%d idf for %d columns", len(f.Idf), v.columns)
	}
	return v, nil
}

// analyze sets how the vectorizer finds terms.
func (v *vectorizer) analyze(f *fileText, t *tables) error {
	switch f.Analyzer {
	case "word":
	case "char":
		v.analyzer = chars
	case "char_wb":
		v.analyzer = charsOfWords
	default:
		return fmt.Errorf("analyzer %q is not one of word, char, char_wb", clip(f.Analyzer))
	}
	if v.analyzer != words && (f.TokenPattern != "" || len(f.StopWords) != 0) {
		return fmt.Errorf("analyzer %s has neither token_pattern nor stop_words", f.Analyzer)
	}
	var err error
	v.pattern, v.folder, err = t.reading(reading{v.analyzer == words, f.TokenPattern, f.Lowercase, f.StripAccents})
	return err
}

// flags returns the flags of a rune for a pattern that is a run.
func (p *pattern) flags(r rune) uint32 {
	switch {
	case !p.run(r):
		return 0
	case p.bad(r):
		return inRun | noToken
	}
	return inRun
}

// takeTerms sets vocabulary and stop words, or the hashing of terms.
func (v *vectorizer) takeTerms(f *fileText) error {
	var err error
	if len(f.StopWords) > 0 {
		if v.stop, err = terms.New(f.StopWords); err != nil {
			return fmt.Errorf("stop_words: %w", err)
		}
	}
	if f.Hash != nil {
		if len(f.Vocabulary) != 0 {
			return errors.New("hash and vocabulary exclude each other")
		}
		if f.Hash.Columns < 1 || f.Hash.Columns > columnsMax {
			return fmt.Errorf("hash.columns is %d, from 1 to %d", f.Hash.Columns, columnsMax)
		}
		if f.Sublinear && f.Hash.AlternateSign {
			return errors.New("sublinear_tf needs counts, which hashes of either sign are not")
		}
		v.columns, v.alternate = f.Hash.Columns, f.Hash.AlternateSign
		return nil
	}
	if len(f.Vocabulary) == 0 {
		return errors.New("vocabulary and hash are missing")
	}
	list := f.Vocabulary
	if v.stop != nil && v.grams[1] == 1 {
		// So a stop word is a term that does not exist.
		list = slices.Clone(list)
		for i, term := range list {
			if _, stopped := v.stop.Find([]byte(term)); stopped {
				list[i] = ""
			}
		}
		v.stop = nil
	}
	v.columns = len(list)
	if v.vocabulary, err = terms.New(list); err != nil {
		return fmt.Errorf("vocabulary: %w", err)
	}
	return nil
}

// murmur3 is MurmurHash3_x86_32 with seed 0, as scikit-learn hashes terms.
func murmur3(key []byte) int32 {
	const first, second = 0xcc9e2d51, 0x1b873593
	hash, length := uint32(0), uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		hash ^= bits.RotateLeft32(binary.LittleEndian.Uint32(key)*first, 15) * second
		hash = bits.RotateLeft32(hash, 13)*5 + 0xe6546b64
	}
	rest := uint32(0)
	for i, b := range key {
		rest |= uint32(b) << (8 * i)
	}
	hash ^= bits.RotateLeft32(rest*first, 15) * second
	hash ^= length
	hash = (hash ^ hash>>16) * 0x85ebca6b
	hash = (hash ^ hash>>13) * 0xc2b2ae35
	return int32(hash ^ hash>>16)
}
