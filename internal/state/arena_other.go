//go:build !unix

package state

import "errors"

func systemMemory(int) ([]byte, error) { return nil, errors.ErrUnsupported }

func returnMemory([]byte) {}
